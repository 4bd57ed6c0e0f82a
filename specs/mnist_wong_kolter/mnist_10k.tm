tm 1

## A handwritten digit of MNIST: 28 by 28 pixels, 0 is paper and 1 is ink.
space digit: tensor(1, 28, 28) of real[0, 1] stored as float32

## Wong and Kolter (ICML 2018), trained for this very ball. See NOTICE for source and licence.
model kolter: digit -> classes(10) {
  network:  onnx("wong_kolter_linf0.1.onnx", sha256: "09b26737d2d18caea294349d3b6fde31b51eb1f5fccbad84977dafa0a91b7cde")
  decide:   argmax ties lowest
  random:   never
}

## All 10,000 test images. The file is too large for this repository; NOTICE says where it comes from.
data test: digit {
  read:     npz("mnist_test_10k.npz", inputs: "x", labels: "y",
                sha256: "748c0ac7a1d43c34ed1340b4efdd10664f6ec143762c133db2b37f64dc939b49")
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
  certify:  crown = auto_lirpa.crown()
  seed:     0
}

claim "published clean error, 1.80 %":  clean_accuracy(both) rounds to 98.20 %
claim "published PGD error, 4.1 %":     survival(both) >= 95.6 %
claim "not weaker than published":      survival(both) <= 96.2 %
claim "published bound, 5.8 %":         certified(both) >= 94.0 %
