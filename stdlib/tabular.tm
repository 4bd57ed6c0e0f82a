tm 1

## One application for a loan, in the units of the form (the LCLD data of Simonetto et al., IJCAI 2022, section 5, with
## the features whose relations the form shows).
space loan {
  loan_amnt:    real[500, 40000] 'USD'
  annual_inc:   real[1, 10000000] 'USD'
  int_rate:     real[5, 31]
  term:         {m36, m60}
  installment:  real[4, 1720] 'USD'
  open_acc:     int[0, 90]
  total_acc:    int[1, 180]
  derive ratio = loan_amnt / annual_inc
  where ratio <= 2
  where installment <= loan_amnt
  where open_acc <= total_acc
  metric minmax {
    loan_amnt: 1/39500  annual_inc: 1/9999999  int_rate: 1/26  term: mismatch  installment: 1/1716  open_acc: 1/90
    total_acc: 1/179
  }
} stored as float32 originals must comply

## An applicant who changes what an applicant can change, by half of all ranges together.
threat applicant(scorer, applications, share = 1/2 in [0.01, 6]) on scorer over applications {
  allow:         metric minmax <= share in loan
  mutable:       loan_amnt, term, installment, open_acc, total_acc, annual_inc up only
  perturbation:  per example
  goal:          targeted class 0
  access:        white_box
  clean_errors:  fail
}
