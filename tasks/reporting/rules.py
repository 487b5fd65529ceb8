"""The rules behind the words of the verdicts, as the pages state them in full."""

ATTACK_RULE = (
    "Membership attacks, judged by the attack with the largest area on what is released (fabricated data, and "
    "classifiers trained with noise on confidential rows if there are any), its interval widened for having been "
    "picked as the largest of several (Bonferroni). Clear advantage: the whole interval is above 0.5 and "
    "the estimate is 0.6 or more. Slight advantage: the whole interval is above 0.5. Below a coin toss: neither, and "
    "the whole widened interval of some attack is below 0.5, so that the attack turned round would gain. Not "
    "conclusive: 0.5 is inside but so is more than 0.6. No advantage found: else."
)
RISK_RULE = (
    "Privacy risks, judged by the largest risk beyond control rows on fabricated data. Attacks that are right about "
    "members no more often than guesses without the data are worth nothing (Giomi et al.): they are not judged and not "
    "counted. The interval is widened for having been picked as the largest of those that remain (Bonferroni). No "
    "attack beats guessing: none remains. Clear risk: the whole interval is above 0 and the estimate is 10 % or more. "
    "Slight risk: the whole interval is above 0. Not conclusive: 0 is inside but so is more than 10 %. No risk found: "
    "else."
)
EPSILON_RULE = (
    "Empirical epsilon. Contradicts the claim: canaries refute the claimed epsilon at 99.99 %. Not conclusive: some "
    "lower bound is above the claimed epsilon, but it is not refuted at 99.99 %. Says nothing: all lower bounds are 0, "
    "so the audit refutes nothing and had no power. Agrees with the claim: else; a low bound does not prove that the "
    "guarantee is better than claimed."
)
UTILITY_RULE = (
    "Usefulness, judged by the best classifier trained on fabricated data. Not useful: its interval, widened for "
    "having been picked as the best of several (Bonferroni), reaches down to always answering the largest class. Close "
    "to real: it keeps at least 90 % of what the best classifier trained on real rows gains over that answer. Partly "
    "useful: else."
)
DISTRIBUTION_RULE = (
    "Distributions, judged by two questions: is the largest pMSE ratio at most 3, and do at least half of the columns "
    "have a distance of at most 0.1 (Kolmogorov-Smirnov where values have an order, ordered categories included; else "
    "total variation)? Close to real: both. "
    "Moved: one. Far from real: neither. Where one of the two was not computed, the other decides between close and "
    "far."
)
