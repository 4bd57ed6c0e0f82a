tm 1

## A scanned digit: 8 by 8 pixels, 0 is paper and 1 is ink.
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32

model reader: scan -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors",
                  sha256: "37dc2708720c286ba999dd181b9eac3120448c592fa86f73bb1458aabcb3dd6a")
  decide:   argmax ties lowest
  random:   never
}

data seen: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) }
  take:     ids "train_ids.txt"
  take:     first 40
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  take:     first 20
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

## One sticker of 3 by 3 pixels for every page. Where it lands and how it is turned is nobody's choice.
threat sticker on reader over test {
  allow:         patch(3, 3)
  mutable:       all
  perturbation:  universal fitted on seen
  nature:        { place uniform [0, 5] 'px'  rotate uniform [-30, 30] 'deg' } draws 60 interpolate bilinear
  goal:          untargeted
  access:        white_box
  clean_errors:  excluded
  success:       single draw judged on 60 fresh draws
}

## A stain for every page, at a known place and of unknown size: it counts where it works in more than half of all draws.
threat stain on reader over test {
  allow:         patch(3, 3) at (2, 3)
  mutable:       all
  perturbation:  per example
  nature:        { rotate uniform [-45, 45] 'deg'  scale uniform [3/4, 5/4] } draws 60 interpolate bilinear
  goal:          untargeted
  access:        white_box
  clean_errors:  excluded
  success:       error_probability > 1/2 at 99 %
}

## Every pixel may change by 6 %, and then the page is scanned a little askew.
threat askew on reader over test {
  allow:         linf <= 0.06 in scan
  mutable:       all
  perturbation:  per example
  nature:        { rotate uniform [-8, 8] 'deg' } draws 30 interpolate bilinear fill 0
  goal:          untargeted
  access:        white_box
  clean_errors:  excluded
  success:       single draw judged on 30 fresh draws
}

evaluate anywhere of sticker {
  attack:       printed = native.patch_pgd(steps: 15, step_size: 1/10 in scan) through expectation(draws: 4)
  attribution:  full
  seed:         0
}

evaluate in_place of stain {
  attack:       stained = native.patch_pgd(steps: 15, step_size: 1/10 in scan) through expectation(draws: 4)
  attribution:  full
  seed:         0
}

evaluate tilted of askew {
  attack:       smudged = native.pgd(steps: 8) through expectation(draws: 4)
  attribution:  full
  seed:         0
}

claim "one sticker is read wrongly in one scan of six": attack_success(anywhere, attack: printed) >= 1/6
claim "a stain of their own ruins half of the pages":   attack_success(in_place, attack: stained) >= 50 %
# Wrong, and kept to show it: what a tilt spares, tilt and smudge together take.
claim "smudges are nothing on a tilted page":           survival(tilted) >= 95 %
