tm 1

## Two numbers between 0 and 1, read to ten bits.
space pair10 {
  first:   real[0, 1] step 1/1024
  second:  real[0, 1] step 1/1024
} stored as float32

## A machine with a thermometer, a load cell and a door.
space machine {
  temp:  real[-40, 85] 'degC'
  load:  real[0, 2] 'kN'
  door:  {open, closed}
} stored as float32

## A thermometer that drifts, or that somebody warms; load and door stay as they are.
threat warm(guard, trips, drift = 2 'degC') on guard over trips {
  allow:         linf <= drift in machine
  mutable:       temp
  perturbation:  per example
  goal:          untargeted
  access:        decisions, queries <= 5000 per example
  clean_errors:  excluded
}

## A reading that somebody changes by at most an eighth, and only the first.
threat first_only(net, observations, radius = 1/8 in [1/1024, 1/2]) on net over observations {
  allow:         linf <= radius in pair10
  mutable:       first
  perturbation:  per example
  goal:          untargeted
  access:        white_box
  clean_errors:  excluded
}
