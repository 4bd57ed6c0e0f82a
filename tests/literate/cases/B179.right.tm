# B179, mended
tm 1
use std.images (cifar10_mean, cifar10_std)

data test: px {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   first 1000
  truth:  published "CIFAR-10 test labels"
}

evaluate aa of linf8 {
  attack:   apgd = native.apgd(loss: ce, steps: 40)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}

claim "survival": survival(aa) >= 40 %

space px: tensor(32, 32, 3) of bytes order rgb

model victim: px -> classes(10) {
  step:     permute(hwc, chw)
  step:     scale(1/255)
  step:     normalize(mean: cifar10_mean, std: cifar10_std)
  network:  torch("victims.py:resnet18", weights: "resnet18.safetensors")
  decide:   argmax ties lowest
  random:   never
}

threat linf8 on victim over test {
  allow:         linf <= 8 'levels' in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

shift fog3 on victim over test {
  apply:     imagecorruptions.fog(severity: 3)
  interval:  wilson at 95 %
}

evaluate foggy of fog3 {
  seed:  0
}
