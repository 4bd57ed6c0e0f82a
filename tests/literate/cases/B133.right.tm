# B133, mended
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

claim "survival": survival(aa) >= 40 %

threat linf8 on victim over test {
  allow:         linf <= 8/255 in px
  mutable:       mask("m.npy")
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate aa of linf8 {
  attack:  fgsm = torchattacks.FGSM()
  attack:  pgd = torchattacks.PGD(steps: 10)
  seed:    0
}
