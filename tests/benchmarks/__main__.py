"""Every benchmark, one after the other: `python -m tests.benchmarks`."""

import subprocess
import sys

BENCHMARKS = [
    "bench_release",
    "bench_audit",
    "bench_scale",
    "bench_kahm",
    "bench_kahm_prediction",
    "bench_noise",
    "bench_noise_limit",
    "bench_accounting",
    "bench_private_moments",
    "bench_private_risk",
    "bench_classifiers",
    "bench_gradient_step",
    "bench_categories",
    "bench_tables",
]

for name in BENCHMARKS:
    print(f"== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}"], check=True)
