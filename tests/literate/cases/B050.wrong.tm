# B050: the standard suite on two classes
# expect: TM511 at `native.apgd_targeted`
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

claim "survival": survival(aa) >= 40 %

use std.suites (autoattack_standard)

space reading {
  temp:  real[-40, 85] 'degC'
  load:  real[0, 2] 'kN'
  door:  {open, closed}
} stored as float32

model guard: reading -> {ok, alarm} {
  network:  onnx("guard.onnx")
  decide:   argmax ties lowest
  random:   never
}

data trips: reading {
  read:   csv("trips.csv", label: "state")
  take:   all
  truth:  reviewed "review.csv"
}

threat drift on guard over trips {
  allow:         linf <= 2 'degC' in reading
  mutable:       temp
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate aa of drift {
  suite:  autoattack_standard(version: "0.1")
  seed:   0
}
