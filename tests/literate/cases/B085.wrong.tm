# B085: an attack that never moves a saturated pixel
# expect: TM518 at `torchattacks.CW`
tm 1
use std.images (cifar10_mean, cifar10_std)

space px: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb

model victim: px -> classes(10) {
  step:     normalize(mean: cifar10_mean, std: cifar10_std) as standardized
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data test: px {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   first 1000
  truth:  published "CIFAR-10 test labels"
}

threat linf8 on victim over test {
  minimize:      l2 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate aa of linf8 {
  attack:  cw = torchattacks.CW(c: 1e-4)
  seed:    0
}

claim "survival": median_distance(aa) <= 1/2
