tm 1

## The scanner of digits.tm: pages that lie crooked, or are smudged, or crooked by so little that hardly a grey changes.

## A scanned digit: 8 by 8 pixels, 0 is paper and 1 is ink.
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32

model reader: scan -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors",
                  sha256: "37dc2708720c286ba999dd181b9eac3120448c592fa86f73bb1458aabcb3dd6a")
  decide:   argmax ties lowest
  random:   never
}

## The first hundred of the 450 images that train.py never trained on.
data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  take:     first 100
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

## Either the page is turned by whole degrees, or every grey value is off by a little: one of both, never one behind the
## other.
threat tilted_or_smudged on reader over test {
  allow:         tilted: transform { rotate <= 15 'deg' step 1 'deg' } interpolate bilinear fill 0
                 or  smudged: linf <= 1/10 in scan
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## Turned by whole degrees, and no grey value by more than a quarter away from the original.
threat tilted_a_little on reader over test {
  allow:         transform { rotate <= 15 'deg' step 1 'deg' } interpolate bilinear fill 0 and linf <= 1/4 in scan
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate either of tilted_or_smudged {
  attack:       angles = native.transform_grid(values: 31)
  attack:       slopes = native.transform_pgd(steps: 10, restarts: 3)
  attack:       greys = native.apgd(loss: margin, steps: 50)
  attribution:  full
  seed:         0
}

evaluate a_little of tilted_a_little {
  enumerate:  all = native.enumerate(at_most: 31)
}

claim "two in five survive either":              survival(either) >= 2/5
claim "of the turned, two in three":             survival(either, part: tilted) >= 2/3
claim "turned a little, four in five are safe":  robust_accuracy(a_little) >= 4/5
