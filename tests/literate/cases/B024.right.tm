# B024, mended
tm 1
use std.images (cifar10_mean, cifar10_std)

data test: px {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   first 1000
  truth:  published "CIFAR-10 test labels"
}

threat linf8 on victim over test {
  allow:         linf <= 8/255 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
  units:         external because "the sensor gives these numbers, channel by channel"
}

evaluate aa of linf8 {
  attack:   apgd = native.apgd(loss: ce, steps: 40)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}

claim "survival": survival(aa) >= 40 %

space px: tensor(3, 32, 32) of real[(-1.99, -1.98, -1.71), (2.06, 2.13, 2.12)] stored as float32 order rgb

model victim: px -> classes(10) {
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}
