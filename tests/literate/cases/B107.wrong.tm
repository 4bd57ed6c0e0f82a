# B107: an average over four attacks in the place of their union
# expect: TM604 at `mean`
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
  allow:         linf <= 8/255 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate aa of linf8 {
  attack:       a = native.apgd(loss: ce, steps: 40)
  attack:       b = native.apgd(loss: dlr, steps: 40)
  attack:       c = native.pgd(steps: 40)
  attack:       d = native.square(queries: 5000)
  seed:         0
  attribution:  full
}

claim "survival": mean(attack_success(aa, attack: a), attack_success(aa, attack: b), attack_success(aa, attack: c), attack_success(aa, attack: d)) >= 50 %
