tm 1

## The scanner of digits.tm, and pages that lie crooked in it: the attacker turns and shifts, and changes nothing else.

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

## Any angle up to ten degrees, then any shift up to a quarter of a pixel; what comes in at the edge is paper.
threat crooked on reader over test {
  allow:         transform { rotate <= 10 'deg'  translate <= 1/4 'px' } interpolate bilinear fill 0
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## Whole degrees up to fifteen: 31 pictures of each digit, so each can be tried.
threat whole_degrees on reader over test {
  allow:         transform { rotate <= 15 'deg' step 1 'deg' } interpolate bilinear fill 0
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate crooked_pages of crooked {
  attack:  grid = native.transform_grid(values: 9)
  attack:  slopes = native.transform_pgd(steps: 20, restarts: 10)
  seed:    0
}

evaluate every_degree of whole_degrees {
  enumerate:  all = native.enumerate(at_most: 31)
}

# Searches alone: four in five is refuted, and what survives is no proof.
claim "four in five survive a crooked page":  survival(crooked_pages) >= 80 %
# Enumerated, so known exactly: of these 31 angles, and of none in between.
claim "two in three at whole degrees":        robust_accuracy(every_degree) >= 2/3
