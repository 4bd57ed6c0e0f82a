tm 1

## AutoAttack, standard: Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse
## parameter-free attacks (ICML 2020), section 5, spelled out attack by attack with the published settings: 100 iterations
## and one restart each, nine targets, 5,000 queries of windows that shrink over 10,000. It needs four classes or
## more.
suite autoattack_standard(version in {"0.1"}) {
  attack:  apgd_ce = native.apgd(loss: ce, steps: 100, restarts: 1)
  attack:  apgd_t = native.apgd_targeted(steps: 100, restarts: 1, targets: 9)
  attack:  fab_t = native.fab_targeted(steps: 100, restarts: 1, targets: 9)
  attack:  square = native.square(queries: 5000, restarts: 1, p_init: 4/5, schedule: 10000)
}

## AutoAttack, standard in l1: Croce and Hein, Mind the box (ICML 2021), with the settings of the preset `standard` of its
## authors' code for l1: five restarts of cross-entropy and five targets. Their walks begin in balls of three and two times
## the radius; these stay in the ball, since on the digits that breaks more. It needs four classes or more.
suite autoattack_standard_l1(version in {"0.1"}) {
  attack:  apgd_ce = native.apgd(loss: ce, steps: 100, restarts: 5)
  attack:  apgd_t = native.apgd_targeted(steps: 100, restarts: 1, targets: 5)
  attack:  fab_t = native.fab_targeted(steps: 100, restarts: 1, targets: 9)
  attack:  square = native.square(queries: 5000, restarts: 1, p_init: 4/5, schedule: 10000)
}

## AutoAttack, plus: the preset `plus` of its authors' code, which adds DLR and FAB without targets, and five restarts of
## those that have no target. It needs four classes or more.
suite autoattack_plus(version in {"0.1"}) {
  attack:  apgd_ce = native.apgd(loss: ce, steps: 100, restarts: 5)
  attack:  apgd_dlr = native.apgd(loss: dlr, steps: 100, restarts: 5)
  attack:  fab = native.fab(steps: 100, restarts: 5)
  attack:  square = native.square(queries: 5000, restarts: 1, p_init: 4/5, schedule: 10000)
  attack:  apgd_t = native.apgd_targeted(steps: 100, restarts: 1, targets: 9)
  attack:  fab_t = native.fab_targeted(steps: 100, restarts: 1, targets: 9)
}

## AutoAttack, rand: the preset of its authors' code for models that draw, each gradient the mean of twenty passes. It
## needs three classes or more.
suite autoattack_rand(version in {"0.1"}) {
  attack:  apgd_ce = native.apgd(loss: ce, steps: 100, restarts: 1) through expectation(draws: 20)
  attack:  apgd_dlr = native.apgd(loss: dlr, steps: 100, restarts: 1) through expectation(draws: 20)
}

## For a first look, and for two or three classes: two losses and no more. What survives it says little.
suite fast(steps = 20) {
  attack:  apgd_ce = native.apgd(loss: ce, steps: steps, restarts: 1)
  attack:  pgd = native.pgd(steps: steps, restarts: 1)
}

## For attackers who see scores and nothing else.
suite black_box(limit = 5000) {
  attack:  square = native.square(queries: limit, restarts: 1, p_init: 4/5)
}

## For threats that minimize l2: the nearest failure by gradients.
suite minimal_distance(steps = 1000) {
  attack:  cw = foolbox.L2CarliniWagnerAttack(steps: steps, binary_search_steps: 9)
}
