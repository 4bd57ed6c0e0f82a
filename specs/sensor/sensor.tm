tm 1

## Two numbers between 0 and 1, read to ten bits.
space reading {
  first:   real[0, 1] step 1/1024
  second:  real[0, 1] step 1/1024
} stored as float32

## A score that reaches 1 is the unwanted class.
model linear: reading -> {ordinary, unwanted} {
  network:  linear(weights: [1, 1], bias: 0)
  decide:   threshold score >= 1 then unwanted else ordinary
  random:   never
}

data observations: reading {
  read:   csv("observations.csv", label: "class", id: "id",
              sha256: "d78811252b205517af01d8a92de3517993e5ee43c833dd017d670ddf6dcf3ec6")
  take:   all
  truth:  reviewed "observations_review.csv"
}

## The opponent may change the first coordinate only, by at most an eighth.
threat first_only on linear over observations {
  allow:         linf <= 0.125 in reading
  mutable:       first
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  excluded                                 # a wrong original is no new failure
  assume:        "the reviewed class still holds after the change" unreviewed
}

evaluate exact of first_only {
  enumerate:  grid = native.enumerate(at_most: 1000)      # at most 257 inputs an example
}

claim "half of them stand":    robust_rate(exact) rounds to 50 %
claim "nothing was left out":  coverage(exact) == 100 %
