# B009: three attacks shift the colours alike, since the loader standardizes
# expect: TM707 at `normalize(mean: cifar10_mean, std: cifar10_std)`
tm 1
use std.images (cifar10_mean, cifar10_std)

space px: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb

threat linf8 on victim over test {
  allow:         linf <= 8/255 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

claim "survival": survival(aa) >= 40 %

model victim: px -> classes(10) {
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data test: px {
  read:     npz("test.npz", inputs: "x", labels: "y")
  prepare:  { normalize(mean: cifar10_mean, std: cifar10_std) }
  take:     first 1000
  truth:    published "CIFAR-10 test labels"
}

evaluate aa of linf8 {
  attack:  a = torchattacks.FGSM()
  attack:  b = torchattacks.PGD(steps: 10)
  seed:    0
}
