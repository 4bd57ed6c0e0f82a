tm 1

## A scanned digit: 8 by 8 pixels, 0 is paper and 1 is ink. The scanner tells 17 grey levels apart, 1/16 from each other.
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32

## Trained by train.py with projected gradient steps in the linf ball of radius 1/20.
model reader: scan -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors",
                  sha256: "37dc2708720c286ba999dd181b9eac3120448c592fa86f73bb1458aabcb3dd6a")
  decide:   argmax ties lowest
  random:   never
}

## The 450 images that train.py never trained on.
data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

## Every pixel may change by 6 % of the way from paper to ink, a little less than one grey level.
threat faint on reader over test {
  allow:         linf <= 0.06 in scan
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The whole change may be as long as four grey levels of one pixel.
threat short_change on reader over test {
  allow:         l2 <= 1/4 in scan
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate greys of faint {
  attack:   ce = native.apgd(loss: ce, steps: 50, restarts: 2)
  attack:   dlr = native.apgd(loss: dlr, steps: 50, restarts: 2)
  attack:   second_opinion = torchattacks.PGD(alpha: 1/128 in scan, steps: 40)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}

evaluate lengths of short_change {
  attack:   ce = native.apgd(loss: ce, steps: 50, restarts: 2)
  attack:   second_opinion = foolbox.L2PGD(steps: 50)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}

# Proved: CROWN certifies more than this.
claim "four in five are proved":         certified(greys) >= 80 %
# Wrong, and kept to show it: the attacks break more than a tenth.
claim "nine in ten survive":             survival(greys) >= 90 %
# Between the proofs and the attacks: nobody knows, and the report says so.
claim "at least 85 in 100 are robust":   robust_accuracy(greys) >= 85 %
claim "three in five are proved in l2":  certified(lengths) >= 60 %
