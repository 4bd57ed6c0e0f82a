tm 1

## AutoAttack, standard: Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse
## parameter-free attacks (ICML 2020), section 5 and appendix; spelled out attack by attack with the published settings:
## 100 iterations and one restart each, nine targets, 5,000 queries. Linf and l2.
suite autoattack_standard(version) {
  attack:  apgd_ce = native.apgd(loss: ce, steps: 100, restarts: 1)
  attack:  apgd_t = native.apgd_targeted(steps: 100, restarts: 1, targets: 9)
  attack:  fab_t = native.fab_targeted(steps: 100, restarts: 1, targets: 9)
  attack:  square = native.square(queries: 5000, restarts: 1, p_init: 4/5)
}
