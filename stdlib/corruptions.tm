tm 1

## Averages over common corruptions (Hendrycks and Dietterich, Benchmarking neural network robustness to common
## corruptions and perturbations, ICLR 2019, section 4). Each is drawn by nature and never adversarial; severities are the
## published ones, which were tuned for pictures of 224 pixels.

shift fog(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.fog(severity: severity)
  interval:  wilson at 95 %
}

## A corrupted set as its authors published it, under the name that it has there.
shift published(net, images, release) on net over images {
  apply:     as_published(name: release)
  interval:  wilson at 95 %
}
