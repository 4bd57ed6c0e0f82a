from campaign.runner import Campaign, counted, each


def check(seed: int) -> list[str]:
    from reference import judge  # torch is loaded only where it is asked

    wrong, counts = judge.check(seed)
    counted(**counts)
    return wrong


CAMPAIGN = Campaign(
    "whole specs on finite sets through check, plan, run and audit, against the list of all inputs",
    count=20_000,
    nightly=2_000,
    check=each(check),
    block=25,
)
