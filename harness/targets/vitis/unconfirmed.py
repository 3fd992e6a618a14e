"""What nobody has seen on a KV260 yet."""

from __future__ import annotations

UNCONFIRMED = (
    "Vitis HLS takes network.cpp as it stands, and reports II=1 for every pipelined loop (`harness firmware` shows it)",
    "Vivado meets the timing at clock_mhz (WNS, WHS and WPWS are not negative; `harness firmware` refuses otherwise)",
    "the clock that reaches the kernels is clock_mhz: measured time over predicted cycles, for a large block, agrees",
    "the overlay suits the platform: port widths (config-afi), clocks, and where the kernels' interrupts end",
    "xmutil listapps shows the application active, and dmesg shows that zocl has probed without a warning of its own",
    "the kernels name themselves with the digest of these sources: `item network runs on` above, from the fabric",
    "group ids: xrt::kernel::group_id names a memory that the port can reach, for `given` and for `made`",
    "100,000 vectors and a proof (harness prove) are identical on the fabric, with --block 1 too",
    "a run after a reboot, after another application, and beside a load on the other cores, is identical: caches hold",
    "a kernel that does not end is noticed after vitis.timeout_s, named, and gone after xmutil unloadapp and loadapp",
    "times of kernels and transfers (times_<item>.jsonl) are plausible: kernels not below the predicted cycles",
)
