tm 1
use std.spaces (grey28, rgb224, rgb32)

## The norm threats under which the field publishes its numbers. Each is untargeted, white-box, on every coordinate, with
## clean errors counted as failures; what differs from that is another threat and needs another name.

## The radius of the linf leaderboard of RobustBench (Croce et al., NeurIPS 2021, section 3), first used by Madry et al.
## (ICLR 2018, section 5).
threat cifar_linf(net, images, radius = 8/255 in [1/255, 16/255]) on net over images {
  allow:         linf <= radius in rgb32
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The l2 leaderboard of RobustBench: 1/2 (Croce et al., NeurIPS 2021, section 3).
threat cifar_l2(net, images, radius = 1/2 in [1/8, 2]) on net over images {
  allow:         l2 <= radius in rgb32
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The l1 radius of Croce and Hein, Mind the box (ICML 2021, section 5).
threat cifar_l1(net, images, radius = 12 in [1, 24]) on net over images {
  allow:         l1 <= radius in rgb32
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The union of three balls of Maini, Wong and Kolter, Adversarial robustness against the union of multiple perturbation
## models (ICML 2020, section 6).
threat cifar_union(net, images) on net over images {
  allow:         flat: linf <= 0.03 in rgb32  or  round: l2 <= 1/2 in rgb32  or  spiky: l1 <= 12 in rgb32
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The radius of the MNIST challenge (Madry et al., ICLR 2018, section 5).
threat mnist_linf(net, images, radius = 0.3 in [0.01, 0.4]) on net over images {
  allow:         linf <= radius in grey28
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The radius of the first certified networks (Wong and Kolter, ICML 2018, section 5).
threat mnist_linf_certified(net, images, radius = 0.1 in [0.01, 0.4]) on net over images {
  allow:         linf <= radius in grey28
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The linf radius of the ImageNet leaderboard of RobustBench (Croce et al., NeurIPS 2021, section 3).
threat imagenet_linf(net, images, radius = 4/255 in [1/255, 16/255]) on net over images {
  allow:         linf <= radius in rgb224
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The l2 radius of ImageNet models trained against attacks (Salman et al., NeurIPS 2020, section 3).
threat imagenet_l2(net, images, radius = 3 in [1/4, 8]) on net over images {
  allow:         l2 <= radius in rgb224
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

## The smallest change in l2 that is found, for a white-box attacker who names a target (Carlini and Wagner, S&P 2017).
threat cifar_nearest(net, images) on net over images {
  minimize:      l2 in rgb32
  mutable:       all
  perturbation:  per example
  goal:          targeted each apart
  access:        white_box
  clean_errors:  excluded
}

## Scores only, ten thousand questions for each example (Andriushchenko et al., Square attack, ECCV 2020, section 5).
threat cifar_scores(net, images, radius = 8/255 in [1/255, 16/255], limit = 10000) on net over images {
  allow:         linf <= radius in rgb32
  mutable:       all
  perturbation:  per example
  goal:          untargeted
  access:        scores, queries <= limit per example
  clean_errors:  fail
}
