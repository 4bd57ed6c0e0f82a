# B169, mended
tm 1
use std.images (cifar10_mean, cifar10_std)

space px: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb

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
}

claim "survival": survival(aa) >= 40 %

model victim: px -> classes(10) {
  step:     normalize(mean: 1/2, std: 1/2)
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}

evaluate aa of linf8 {
  attack:   apgd = native.apgd(loss: ce, steps: 40)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}
