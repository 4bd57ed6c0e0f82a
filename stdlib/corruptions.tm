tm 1

## Averages over common corruptions (Hendrycks and Dietterich, Benchmarking neural network robustness to common
## corruptions and perturbations, ICLR 2019, section 4). Each is drawn by nature and never adversarial; severities are the
## published ones, which were tuned for pictures of 224 pixels. The benchmark is the first fifteen; the authors keep the
## last four for choosing methods.
shift gaussian_noise(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.gaussian_noise(severity: severity)
  interval:  wilson at 95 %
}

## Poisson noise, from the discreteness of light.
shift shot_noise(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.shot_noise(severity: severity)
  interval:  wilson at 95 %
}

## Salt and pepper, as from bit errors.
shift impulse_noise(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.impulse_noise(severity: severity)
  interval:  wilson at 95 %
}

## Blur of a lens out of focus.
shift defocus_blur(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.defocus_blur(severity: severity)
  interval:  wilson at 95 %
}

## Blur of frosted glass.
shift glass_blur(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.glass_blur(severity: severity)
  interval:  wilson at 95 %
}

## Blur of a camera that moves.
shift motion_blur(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.motion_blur(severity: severity)
  interval:  wilson at 95 %
}

## Blur of a camera that approaches.
shift zoom_blur(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.zoom_blur(severity: severity)
  interval:  wilson at 95 %
}

## Snow that falls in front of the picture.
shift snow(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.snow(severity: severity)
  interval:  wilson at 95 %
}

## Ice on the lens or the window.
shift frost(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.frost(severity: severity)
  interval:  wilson at 95 %
}

## Fog, by the diamond-square algorithm.
shift fog(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.fog(severity: severity)
  interval:  wilson at 95 %
}

## Brighter daylight.
shift brightness(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.brightness(severity: severity)
  interval:  wilson at 95 %
}

## Less contrast.
shift contrast(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.contrast(severity: severity)
  interval:  wilson at 95 %
}

## Small regions stretched and contracted.
shift elastic_transform(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.elastic_transform(severity: severity)
  interval:  wilson at 95 %
}

## A low resolution, brought up again.
shift pixelate(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.pixelate(severity: severity)
  interval:  wilson at 95 %
}

## Lossy compression.
shift jpeg_compression(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.jpeg_compression(severity: severity)
  interval:  wilson at 95 %
}

## Noise that grows with the value of the pixel (held out by the authors).
shift speckle_noise(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.speckle_noise(severity: severity)
  interval:  wilson at 95 %
}

## Blur by a Gaussian (held out by the authors).
shift gaussian_blur(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.gaussian_blur(severity: severity)
  interval:  wilson at 95 %
}

## Rain or mud on the lens (held out by the authors).
shift spatter(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.spatter(severity: severity)
  interval:  wilson at 95 %
}

## More or less colour (held out by the authors).
shift saturate(net, images, severity in [1, 5]) on net over images {
  apply:     imagecorruptions.saturate(severity: severity)
  interval:  wilson at 95 %
}

## A corrupted set as its authors published it, under the name that it has there.
shift published(net, images, release) on net over images {
  apply:     as_published(name: release)
  interval:  wilson at 95 %
}

## The benchmark in one line: its fifteen corruptions at five severities, each from the original. Its corruption errors
## are `mce` and `relative_mce`, relative to a baseline on the same examples.
shift common_corruptions(net, images) on net over images {
  apply:     imagecorruptions.gaussian_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.shot_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.impulse_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.defocus_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.glass_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.motion_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.zoom_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.snow(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.frost(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.fog(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.brightness(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.contrast(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.elastic_transform(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.pixelate(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.jpeg_compression(severity: (1, 2, 3, 4, 5))
  interval:  wilson at 95 %
}

## All nineteen at five severities, the four that the authors hold out with them.
shift all_corruptions(net, images) on net over images {
  apply:     imagecorruptions.gaussian_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.shot_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.impulse_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.defocus_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.glass_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.motion_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.zoom_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.snow(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.frost(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.fog(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.brightness(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.contrast(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.elastic_transform(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.pixelate(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.jpeg_compression(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.speckle_noise(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.gaussian_blur(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.spatter(severity: (1, 2, 3, 4, 5))
  apply:     imagecorruptions.saturate(severity: (1, 2, 3, 4, 5))
  interval:  wilson at 95 %
}
