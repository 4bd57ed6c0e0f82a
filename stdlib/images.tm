tm 1

## Per-channel means and standard deviations of the usual picture sets, of values scaled to [0, 1], red first.
## They were measured over all pixels of the training set; networks were trained with them, so that the four digits
## as printed, and not better ones, are part of the attacked object.

## CIFAR-10, 50,000 training pictures (Krizhevsky, 2009).
let cifar10_mean = (0.4914, 0.4822, 0.4465)
let cifar10_std = (0.2471, 0.2435, 0.2616)

## A widely copied other value: the average of the deviations of single pictures, which is smaller. Networks that were
## trained with it need it.
let cifar10_std_per_image = (0.2023, 0.1994, 0.2010)

## CIFAR-100, 50,000 training pictures (Krizhevsky, 2009).
let cifar100_mean = (0.5071, 0.4865, 0.4409)
let cifar100_std = (0.2673, 0.2564, 0.2762)

## ImageNet, ILSVRC 2012, as the torchvision models were trained with.
let imagenet_mean = (0.485, 0.456, 0.406)
let imagenet_std = (0.229, 0.224, 0.225)

## ImageNet for networks converted from Caffe: bytes, blue first, means only.
let imagenet_caffe_mean = (103.939, 116.779, 123.68)

## MNIST, 60,000 training digits (LeCun et al., 1998), one channel.
let mnist_mean = 0.1307
let mnist_std = 0.3081

## Fashion-MNIST, 60,000 training pictures (Xiao et al., 2017), one channel.
let fashion_mnist_mean = 0.2860
let fashion_mnist_std = 0.3530

## SVHN, cropped digits, 73,257 training pictures (Netzer et al., 2011).
let svhn_mean = (0.4377, 0.4438, 0.4728)
let svhn_std = (0.1980, 0.2010, 0.1970)

## From [0, 1] to [-1, 1].
let half = (1/2, 1/2, 1/2)
