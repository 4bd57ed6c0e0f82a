tm 1

## The spec behind docs/figures.md: the digits, with a curve, a model that may reject, and the figures that fit each.
space scan: tensor(1, 8, 8) of real[0, 1] stored as float32

model reader: scan -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors",
                  sha256: "37dc2708720c286ba999dd181b9eac3120448c592fa86f73bb1458aabcb3dd6a")
  decide:   argmax ties lowest
  random:   never
}

## It hands in nothing that it is not at least three quarters sure of.
model cautious: scan -> classes(10) {
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors",
                  sha256: "37dc2708720c286ba999dd181b9eac3120448c592fa86f73bb1458aabcb3dd6a")
  decide:   argmax ties lowest
  reject:   when max_softmax < 3/4
  random:   never
}

data test: scan {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) }
  take:     ids "test_ids.txt"
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

param eps = 0.06 in [0, 1/4]

threat faint on reader over test {
  allow:         linf <= eps in scan
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

threat unsure on cautious over test {
  allow:         linf <= 0.06 in scan
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
  rejected:      safe
}

evaluate greys of faint {
  attack:       ce = native.apgd(loss: ce, steps: 20)
  attack:       pgd = torchattacks.PGD(alpha: 1/128 in scan, steps: 10)
  attack:       noise = native.random(draws: 50)
  certify:      crown = auto_lirpa.crown(outputs: true)
  seed:         0
  attribution:  full
}

evaluate radii of faint {
  attack:   ce = native.apgd(loss: ce, steps: 20)
  certify:  crown = auto_lirpa.crown()
  seed:     0
  curve:    eps over [0.02, 0.04, 0.06, 0.08, 0.12]
}

evaluate refusing of unsure {
  attack:  ce = native.apgd(loss: ce, steps: 20)
  seed:    0
}

report {
  figures:  image_pairs(greys), perturbation_heatmap(greys), verdict_summary(greys), survival_curve(greys),
            overlap(greys), distances(greys), measured_margins(greys), margins(greys), margin_heatmap(greys),
            output_bounds(greys), pinned_intervals(greys), width_heatmap(greys), coverage(greys), radius_curve(radii),
            rejection(refusing)
}
