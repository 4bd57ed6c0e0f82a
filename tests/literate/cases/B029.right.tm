# B029, mended
tm 1
use std.images (cifar10_mean, cifar10_std)

data test: px {
  read:   npz("test.npz", inputs: "x", labels: "y")
  take:   first 1000
  truth:  published "CIFAR-10 test labels"
}

claim "survival": survival(aa) >= 40 %

use std.images (imagenet_caffe_mean)

space px: tensor(3, 32, 32) of bytes order rgb

model victim: px -> classes(10) {
  step:     channels(bgr)
  step:     normalize(mean: imagenet_caffe_mean, std: 1)
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

evaluate aa of linf8 {
  attack:  apgd = native.apgd(loss: ce, steps: 40)
  seed:    0
}
