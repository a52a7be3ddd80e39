"""Triton kernels: one program per row of logits.

A row is read in tiles of LANES vectors of VEC neighbors, 16 bytes each, from an aligned address at
or before its first number: rows of an odd width start anywhere, and only the first and the last
tile need a mask. Sums are kept per lane and reduced once, at the end of the row.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
FAR = tl.constexpr(30.0)
LEAST = tl.constexpr(-3.4e38)
TOP_K = tl.constexpr(1)
TOP_P = tl.constexpr(2)
MOST_TURNS = tl.constexpr(60)


@triton.jit
def exp2(x, FTZ: tl.constexpr):
    """2^x; with FTZ without the handling of subnormal results, which costs two instructions."""
    if FTZ:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def tile_of(
    logits, base, start, shift, width, LANES: tl.constexpr, VEC: tl.constexpr, WHOLE: tl.constexpr
):
    """A tile in single precision; outside the row, if the tile is not WHOLE, it is -inf."""
    place = start + tl.arange(0, LANES)[:, None] * VEC + tl.arange(0, VEC)[None, :]
    if WHOLE:
        x = tl.load(logits + base + place)
    else:
        inside = (place >= shift) & (place < shift + width)
        x = tl.load(logits + base + place, mask=inside, other=-float("inf"))
    return x.to(tl.float32)


@triton.jit
def exponent(x, centre, factor):
    """(x - centre) · factor, clipped far below 0 instead of -inf: 0 · -inf would be undefined."""
    return tl.maximum((x - centre) * factor, -1e30, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def take(x, tile, centre, best, at, total, square, weighted, FTZ: tl.constexpr):
    """Add a tile to the sums and maxima of the lanes."""
    d = exponent(x, centre, LOG2E)
    e = exp2(d, FTZ)
    highest = tl.max(x, axis=1)
    at = tl.where(highest > best, tile, at)
    best = tl.maximum(best, highest)
    total += tl.sum(e, axis=1)
    square += tl.sum(e * e, axis=1)
    weighted += tl.sum(e * d, axis=1)
    return best, at, total, square, weighted


@triton.jit
def sweep(
    logits, base, shift, width, centre,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Read a row once: maximum and its tile per lane, Σ e, Σ e² and Σ e·log2 e."""
    TILE: tl.constexpr = LANES * VEC
    best = tl.full([LANES], -float("inf"), tl.float32)
    at = tl.zeros([LANES], tl.int32)
    total = tl.zeros([LANES], tl.float32)
    square = tl.zeros([LANES], tl.float32)
    weighted = tl.zeros([LANES], tl.float32)
    x = tile_of(logits, base, 0, shift, width, LANES, VEC, False)
    best, at, total, square, weighted = take(x, 0, centre, best, at, total, square, weighted, FTZ)
    whole = (shift + width) // TILE
    for tile in tl.range(1, whole, num_stages=STAGES):
        x = tile_of(logits, base, tile * TILE, shift, width, LANES, VEC, True)
        best, at, total, square, weighted = take(
            x, tile, centre, best, at, total, square, weighted, FTZ
        )
    last = tl.maximum(whole, 1)
    x = tile_of(logits, base, last * TILE, shift, width, LANES, VEC, False)
    best, at, total, square, weighted = take(
        x, last, centre, best, at, total, square, weighted, FTZ
    )
    return best, at, tl.sum(total), tl.sum(square), tl.sum(weighted)


@triton.jit
def plain_kernel(
    logits, targets, out, predicted, stride, width, rows,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Per row: confidence, Σ P², P(y), -log P(y), entropy, log normalizer, maximum; argmax."""
    row = tl.program_id(0).to(tl.int64)
    first = row * stride
    base = first // VEC * VEC
    shift = (first - base).to(tl.int32)
    # Any number near the maximum keeps e^x in range: the first tile's nearly always does.
    centre = tl.max(tile_of(logits, base, 0, shift, width, LANES, VEC, False))
    centre = tl.where(centre > LEAST, centre, 0.0)
    best, at, total, square, weighted = sweep(
        logits, base, shift, width, centre, LANES, VEC, STAGES, FTZ
    )
    highest = tl.max(best)
    if (tl.abs(highest - centre) > FAR) & (highest > LEAST):
        centre = highest
        best, at, total, square, weighted = sweep(
            logits, base, shift, width, centre, LANES, VEC, STAGES, FTZ
        )
    place = (
        at[:, None] * (LANES * VEC)
        + tl.arange(0, LANES)[:, None] * VEC
        + tl.arange(0, VEC)[None, :]
    )
    holds = (best == highest)[:, None] & (place >= shift) & (place < shift + width)
    reloaded = tl.load(logits + base + place, mask=holds, other=-float("inf")).to(tl.float32)
    index = tl.min(tl.where(holds & (reloaded == highest), place - shift, width - 1))

    target_logit = tl.load(logits + first + tl.load(targets + row)).to(tl.float32)
    log_total = tl.log2(total)
    hit = tl.exp2(exponent(target_logit, centre, LOG2E) - log_total)
    tl.store(predicted + row, index)
    tl.store(out + row, tl.exp2((highest - centre) * LOG2E - log_total))
    tl.store(out + rows + row, square / (total * total))
    tl.store(out + 2 * rows + row, hit)
    tl.store(out + 3 * rows + row, (centre - target_logit) + log_total * LN2)
    tl.store(out + 4 * rows + row, (log_total - weighted / total) * LN2)
    tl.store(out + 5 * rows + row, centre + log_total * LN2)
    tl.store(out + 6 * rows + row, highest)


@triton.jit
def weigh(x, highest, sharp, HOT: tl.constexpr, FTZ: tl.constexpr):
    """e^{x - max} and its weight under the decoder, the same at temperature 1."""
    d = (x - highest) * LOG2E
    e = exp2(d, FTZ)
    if HOT:
        return e, exp2(d * sharp, FTZ)
    return e, e


@triton.jit
def probe(
    x, t1, t2, t3, a1, a2, a3, highest, sharp,
    MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Add a tile to the mass (top-p) or number (top-k) above each threshold."""
    if MODE == TOP_P:
        _, w = weigh(x, highest, sharp, HOT, FTZ)
    else:
        w = tl.full(x.shape, 1.0, tl.float32)
    a1 += tl.sum(tl.where(x > t1, w, 0.0), axis=1)
    a2 += tl.sum(tl.where(x > t2, w, 0.0), axis=1)
    a3 += tl.sum(tl.where(x > t3, w, 0.0), axis=1)
    return a1, a2, a3


@triton.jit
def above(
    logits, base, shift, width, t1, t2, t3, highest, sharp,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """One read: the amount above each of three thresholds."""
    TILE: tl.constexpr = LANES * VEC
    a1 = tl.zeros([LANES], tl.float32)
    a2 = tl.zeros([LANES], tl.float32)
    a3 = tl.zeros([LANES], tl.float32)
    x = tile_of(logits, base, 0, shift, width, LANES, VEC, False)
    a1, a2, a3 = probe(x, t1, t2, t3, a1, a2, a3, highest, sharp, MODE, HOT, FTZ)
    whole = (shift + width) // TILE
    for tile in tl.range(1, whole, num_stages=STAGES):
        x = tile_of(logits, base, tile * TILE, shift, width, LANES, VEC, True)
        a1, a2, a3 = probe(x, t1, t2, t3, a1, a2, a3, highest, sharp, MODE, HOT, FTZ)
    last = tl.maximum(whole, 1) * TILE
    x = tile_of(logits, base, last, shift, width, LANES, VEC, False)
    a1, a2, a3 = probe(x, t1, t2, t3, a1, a2, a3, highest, sharp, MODE, HOT, FTZ)
    return tl.sum(a1), tl.sum(a2), tl.sum(a3)


@triton.jit
def add_kept(
    x, place, lo, hi, target, mass, cross, ties, behind, low, high, highest, sharp,
    HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Add a tile to Σ w and Σ w·e above hi, and examine the values in (lo, hi]."""
    e, w = weigh(x, highest, sharp, HOT, FTZ)
    kept = tl.where(x > hi, w, 0.0)
    held = (x > lo) & (x <= hi)
    mass += tl.sum(kept, axis=1)
    cross += tl.sum(kept * e, axis=1)
    ties += tl.sum(held.to(tl.int32), axis=1)
    behind += tl.sum((held & (place > target)).to(tl.int32), axis=1)
    low = tl.minimum(low, tl.min(tl.where(held, x, float("inf")), axis=1))
    high = tl.maximum(high, tl.max(tl.where(held, x, -float("inf")), axis=1))
    return mass, cross, ties, behind, low, high


@triton.jit
def kept_sums(
    logits, base, shift, width, lo, hi, target, highest, sharp,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """One read: Σ w and Σ w·e above hi; in (lo, hi] the number, those behind y, the extremes."""
    TILE: tl.constexpr = LANES * VEC
    mass = tl.zeros([LANES], tl.float32)
    cross = tl.zeros([LANES], tl.float32)
    ties = tl.zeros([LANES], tl.int32)
    behind = tl.zeros([LANES], tl.int32)
    low = tl.full([LANES], float("inf"), tl.float32)
    high = tl.full([LANES], -float("inf"), tl.float32)
    inner = tl.arange(0, LANES)[:, None] * VEC + tl.arange(0, VEC)[None, :] - shift
    x = tile_of(logits, base, 0, shift, width, LANES, VEC, False)
    mass, cross, ties, behind, low, high = add_kept(
        x, inner, lo, hi, target, mass, cross, ties, behind, low, high, highest, sharp, HOT, FTZ
    )
    whole = (shift + width) // TILE
    for tile in tl.range(1, whole, num_stages=STAGES):
        x = tile_of(logits, base, tile * TILE, shift, width, LANES, VEC, True)
        mass, cross, ties, behind, low, high = add_kept(
            x, inner + tile * TILE, lo, hi, target, mass, cross, ties, behind, low, high,
            highest, sharp, HOT, FTZ,
        )  # fmt: skip
    last = tl.maximum(whole, 1) * TILE
    x = tile_of(logits, base, last, shift, width, LANES, VEC, False)
    mass, cross, ties, behind, low, high = add_kept(
        x, inner + last, lo, hi, target, mass, cross, ties, behind, low, high, highest, sharp,
        HOT, FTZ,
    )  # fmt: skip
    return tl.sum(mass), tl.sum(cross), tl.sum(ties), tl.sum(behind), tl.min(low), tl.max(high)


@triton.jit
def nearer(t, amount, need, lo, hi, over, under):
    """The bracket (lo, hi] after one threshold: at least `need` above lo, less above hi."""
    enough = amount >= need
    over = tl.where(enough & (t >= lo), amount, over)
    under = tl.where((amount < need) & (t <= hi), amount, under)
    lo = tl.where(enough, tl.maximum(lo, t), lo)
    hi = tl.where(amount < need, tl.minimum(hi, t), hi)
    return lo, hi, over, under


@triton.jit
def spacing(lo, hi, MANTISSA: tl.constexpr):
    """The widest step between adjacent numbers of the logits' type in (lo, hi]."""
    largest = tl.maximum(tl.maximum(tl.abs(lo), tl.abs(hi)), 1e-30)
    return tl.exp2(tl.floor(tl.log2(largest)) - MANTISSA)


@triton.jit
def narrow(
    logits, base, shift, width, lo, hi, over, under, need, read, prior, reach, highest, sharp,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr, MANTISSA: tl.constexpr,
    MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """One read that narrows the bracket of the edge, the least v with less than `need` above it.

    Three thresholds around the edge predicted from the amounts at the bracket's ends. In the first
    `read` these say little: top-p searches around `prior` with width `reach`, top-k in steps below
    the maximum. Quarters if few numbers are left between the ends, and after some reads: they never
    fail.
    """
    gap = hi - lo
    step = spacing(lo, hi, MANTISSA)
    if MODE == TOP_K:
        # The number of tokens above a threshold falls about exponentially with it.
        share = tl.log2(over / need) / tl.log2(over / tl.maximum(under, 0.5))
    else:
        share = (over - need) / (over - under)
    guess = lo + gap * tl.minimum(tl.maximum(share, 0.0), 1.0)
    beside = tl.maximum(0.03125 * gap, 0.6 * step)
    if (gap < 4.0 * step) | (read > 3):
        guess = lo + 0.5 * gap
        beside = 0.25 * gap
    t1 = guess - beside
    t2 = guess
    t3 = guess + beside
    if read == 0:
        if MODE == TOP_K:
            t1 = hi - 10.0
            t2 = hi - 4.0
            t3 = hi - 1.5
        else:
            t1 = prior - reach
            t2 = prior
            t3 = prior + reach
    t1 = tl.minimum(tl.maximum(t1, lo), hi)
    t2 = tl.minimum(tl.maximum(t2, lo), hi)
    t3 = tl.minimum(tl.maximum(t3, lo), hi)
    a1, a2, a3 = above(
        logits, base, shift, width, t1, t2, t3, highest, sharp,
        LANES, VEC, STAGES, MODE, HOT, FTZ,
    )  # fmt: skip
    lo, hi, over, under = nearer(t1, a1, need, lo, hi, over, under)
    lo, hi, over, under = nearer(t2, a2, need, lo, hi, over, under)
    lo, hi, over, under = nearer(t3, a3, need, lo, hi, over, under)
    return lo, hi, over, under


@triton.jit
def decoded_kernel(
    logits, targets, plain, out, stride, width, rows, sharp, limit, quantile,
    PROBES: tl.constexpr, LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    MANTISSA: tl.constexpr, MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Per row p̃ and ã under temperature 1/sharp with none, top-k or top-p (`limit`).

    `quantile` is that of the standard normal distribution at `limit`.
    """
    row = tl.program_id(0).to(tl.int64)
    first = row * stride
    base = first // VEC * VEC
    shift = (first - base).to(tl.int32)
    # The greatest P rather than the log normaliser, which loses digits where logits are large.
    confidence = tl.load(plain + row)
    highest = tl.load(plain + 6 * rows + row)
    target = tl.load(targets + row).to(tl.int32)
    target_logit = tl.load(logits + first + target).to(tl.float32)
    total = 1.0 / confidence
    need = limit
    lo = -float("inf")
    hi = -float("inf")
    prior = total * 0.0
    reach = total * 0.0
    over = total
    under = total * 0.0
    if (MODE == TOP_K) | HOT:
        whole, _, count, _, least, _ = kept_sums(
            logits, base, shift, width, LEAST, LEAST if MODE != TOP_K else highest, target,
            highest, sharp, LANES, VEC, STAGES, HOT, FTZ,
        )  # fmt: skip
        if MODE == TOP_K:
            over = count.to(tl.float32)
            # With fewer tokens than k, all stay: nothing is searched for.
            enough = over >= limit
            lo = tl.where(enough, least - tl.maximum(1.0, tl.abs(least) * 0.001), lo)
            hi = tl.where(enough, highest, hi)
        else:
            total = whole
            over = total
    if MODE == TOP_P:
        need = limit * total
        # All numbers up to `lo` together have less than the mass that is dropped.
        lo = highest + tl.log2((1.0 - limit) * total / width) * LN2 / sharp - 0.01
        hi = highest
        prior = 0.5 * (lo + hi)
        reach = 0.25 * (hi - lo)
        if not HOT:
            # Were log P(v), v drawn from P, normal: H and Σ P² give its mean and its spread.
            entropy = tl.load(plain + 4 * rows + row)
            square = tl.load(plain + rows + row)
            spread = tl.sqrt(tl.maximum(2.0 * (entropy + tl.log2(square) * LN2), 0.0))
            prior = highest - tl.log2(confidence) * LN2 - entropy - quantile * spread
            reach = 0.25 * spread + 0.01
    mass = total * 0.0
    cross = total * 0.0
    ties = shift * 0
    behind = shift * 0
    high = hi
    turns = 0
    while turns < MOST_TURNS:
        if MODE != 0:
            if hi > lo:
                for probe_number in range(PROBES):
                    lo, hi, over, under = narrow(
                        logits, base, shift, width, lo, hi, over, under, need,
                        turns * PROBES + probe_number, prior, reach, highest, sharp,
                        LANES, VEC, STAGES, MANTISSA, MODE, HOT, FTZ,
                    )  # fmt: skip
        mass, cross, ties, behind, low, high = kept_sums(
            logits, base, shift, width, lo, hi, target, highest, sharp,
            LANES, VEC, STAGES, HOT, FTZ,
        )  # fmt: skip
        turns += 1
        if low < high:
            hi = tl.minimum(hi, high)
        else:
            turns = MOST_TURNS
    # All remaining values in the bracket equal the edge.
    edge = high
    edge_exp = tl.exp2(exponent(edge, highest, LOG2E))
    weight = tl.exp2(exponent(edge, highest, LOG2E * sharp))
    room = ties
    if MODE == TOP_P:
        fits = tl.ceil((need - mass) / tl.maximum(weight, 1e-38))
        room = tl.minimum(tl.maximum(fits, 1.0), ties.to(tl.float32)).to(tl.int32)
    added = weight * room.to(tl.float32)
    mass += added
    cross += added * edge_exp
    stays = (target_logit > edge) | ((target_logit == edge) & (behind < room))
    chance = tl.exp2(exponent(target_logit, highest, LOG2E * sharp)) / mass
    tl.store(out + row, cross / mass * confidence)
    tl.store(out + rows + row, tl.where(stays, chance, 0.0))
