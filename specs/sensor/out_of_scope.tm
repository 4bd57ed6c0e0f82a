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

## Somebody submitted inputs that change the model's mind. Each is judged, and none may be handed in by this opponent.
evaluate judged of first_only {
  attack:  submitted = native.replay("submitted.safetensors",
                                     sha256: "8583fd340ff87758f486e8cabdff15da8f3b541cf6f7be6e413ab1f091437983")
  seed:    0
}

claim "nothing that was submitted counts":  survival(judged) == 100 %
claim "all of it was judged":               attack_coverage(judged) == 100 %
