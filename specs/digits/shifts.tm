tm 1

## The scanner of digits.tm, and what the world does to its pictures: averages over named changes, and nobody chooses.

## What the scanner hands in: 32 by 32 grey bytes. The corruptions take no smaller picture.
space page: tensor(32, 32, 1) of bytes

## The network of digits.tm behind the steps that make its 8 by 8 pixels out of a page.
model reader: page -> classes(10) {
  step:     permute(hwc, chw)
  step:     scale(1/255)
  step:     resize(8, filter: bilinear)
  network:  torch("digits.py:small_cnn", weights: "digits.safetensors",
                  sha256: "37dc2708720c286ba999dd181b9eac3120448c592fa86f73bb1458aabcb3dd6a")
  decide:   argmax ties lowest
  random:   never
}

## The first hundred of the 450 images that train.py never trained on, every pixel as a square of 4 by 4.
data test: page {
  read:     npz("digits.npz", inputs: "images", labels: "labels", ids: "ids",
                sha256: "21f72be81023caf247cdaaab31c74b90aba65f147593c70b96b10e7d5774c953")
  prepare:  { scale(1/16) quantize(levels: 256) scale(255) resize(32, filter: nearest) permute(chw, hwc) }
  take:     ids "test_ids.txt"
  take:     first 100
  truth:    published "Optical Recognition of Handwritten Digits, UCI"
}

shift out_of_focus on reader over test {
  apply:     imagecorruptions.defocus_blur(severity: 1)
  interval:  wilson at 95 %
}

shift in_fog on reader over test {
  apply:     imagecorruptions.fog(severity: 1)
  interval:  wilson at 95 %
}

shift salted on reader over test {
  apply:     imagecorruptions.impulse_noise(severity: 3)
  interval:  clopper_pearson at 95 %
}

## A stated law instead of a library's picture of it.
shift noisy on reader over test {
  apply:     native.gaussian_noise(sd: 32 'levels' in page)
  interval:  clopper_pearson at 95 %
}

evaluate focus of out_of_focus { seed: 0 }
evaluate fog of in_fog { seed: 0 }
evaluate salt of salted { seed: 0 }

evaluate noise of noisy {
  seed:     0
  repeats:  3
}

claim "reads noisy pages": corrupted_accuracy(noise) >= 80 %
