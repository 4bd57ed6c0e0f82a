tm 1

## The input spaces of the usual data sets, as an attacker from outside sees them.

## CIFAR-10, CIFAR-100 and SVHN, channels first, scaled to [0, 1].
space rgb32: tensor(3, 32, 32) of real[0, 1] stored as float32 order rgb

## The same pictures as the files hold them: bytes, channels last.
space rgb32_bytes: tensor(32, 32, 3) of bytes order rgb

## MNIST and Fashion-MNIST, one channel, scaled to [0, 1].
space grey28: tensor(1, 28, 28) of real[0, 1] stored as float32

## The same digits as the files hold them.
space grey28_bytes: tensor(1, 28, 28) of bytes

## ImageNet crops of 224 pixels, channels first, scaled to [0, 1].
space rgb224: tensor(3, 224, 224) of real[0, 1] stored as float32 order rgb

## ImageNet crops of 224 pixels as bytes, channels first.
space rgb224_bytes: tensor(3, 224, 224) of bytes order rgb

## ImageNet crops of 299 pixels (Inception), channels first, scaled to [0, 1].
space rgb299: tensor(3, 299, 299) of real[0, 1] stored as float32 order rgb

## scikit-learn's digits: 8 by 8 counts from 0 to 16, scaled to [0, 1].
space digits8: tensor(1, 8, 8) of real[0, 1] stored as float32

## ACAS Xu: an encounter of two aircraft (Katz et al., Reluplex, CAV 2017, section 6).
space encounter {
  rho:    real[0, 60760] 'ft'
  theta:  real[-3.141593, 3.141593] 'rad'
  psi:    real[-3.141593, 3.141593] 'rad'
  vown:   real[100, 1200] 'ft/s'
  vint:   real[0, 1200] 'ft/s'
} stored as float32
