tm 1

## A handwritten digit of MNIST: 28 by 28 pixels, 0 is paper and 1 is ink.
space digit: tensor(1, 28, 28) of real[0, 1] stored as float32

## Wong and Kolter (ICML 2018), trained for this very ball. See NOTICE for source and licence.
model kolter: digit -> classes(10) {
  network:  onnx("wong_kolter_linf0.1.onnx", sha256: "09b26737d2d18caea294349d3b6fde31b51eb1f5fccbad84977dafa0a91b7cde")
  decide:   argmax ties lowest
  random:   never
}

## The first 1,000 test images.
data test: digit {
  read:     npz("mnist_test_first1000.npz", inputs: "x", labels: "y",
                sha256: "d85f817cdc3aad559fb9449d27689b93063c0d2b6b795984c6326c7ce2c9f930")
  prepare:  { scale(1/255) }
  take:     all
  truth:    published "MNIST test labels"
}

threat linf01 on kolter over test {
  allow:         linf <= 0.1 in digit
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate both of linf01 {
  attack:   pgd = torchattacks.PGD(alpha: 0.01 in digit, steps: 40)
  attack:   apgd = native.apgd(loss: ce, steps: 40)
  certify:  crown = auto_lirpa.crown()
  seed:     0
}

claim "clean error 1.8 % here too":       clean_accuracy(both) == 98.2 %
claim "PGD breaks few":                   survival(both) >= 95 %
claim "at most 6.2 % are without proof":  certified(both) >= 93.8 %
claim "nothing was left out":             coverage(both) == 100 %
