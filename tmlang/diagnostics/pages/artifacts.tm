tm 1

space px: tensor(2) of real[0, 1] stored as float32

model net: px -> classes(2) {
  network:  torch("net.py:make", weights: "net.safetensors")
  decide:   argmax ties lowest
  random:   never
}

data four: px {
  read:   npz("four.npz", inputs: "x", labels: "y")
  take:   all
  truth:  published "by hand"
}

threat near on net over four {
  allow:         linf <= 1/8 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate search of near {
  attack:  apgd = native.apgd(loss: ce, steps: 10)
  seed:    0
}
