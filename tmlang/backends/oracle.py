"""The attacker's door to the model: grants what the access level allows, counts what passes, stops at the limit.

Owner of the counts in the records. STUB contract; see ``contract.Job``.
"""
