"""The Triton kernels: one program a row of logits.

A row is read in tiles of LANES vectors of VEC neighbours, 16 bytes each, from an aligned address at
or before its first number: rows of an odd width start anywhere, and only the first and the last
tile need a mask. Sums are kept by lane and meet once, at the end of the row.
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
MOST_PASSES = tl.constexpr(200)


@triton.jit
def exp2(x, FTZ: tl.constexpr):
    """2^x; without the handling of subnormal results where FTZ, which costs two instructions."""
    if FTZ:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def tile_of(
    logits, base, start, shift, width, LANES: tl.constexpr, VEC: tl.constexpr, WHOLE: tl.constexpr
):
    """A tile in single precision; outside the row, where the tile is not WHOLE, it is -inf."""
    place = start + tl.arange(0, LANES)[:, None] * VEC + tl.arange(0, VEC)[None, :]
    if WHOLE:
        x = tl.load(logits + base + place)
    else:
        inside = (place >= shift) & (place < shift + width)
        x = tl.load(logits + base + place, mask=inside, other=-float("inf"))
    return x.to(tl.float32)


@triton.jit
def exponent(x, centre, factor):
    """(x - centre) · factor, far below 0 rather than -inf: 0 · -inf would be undefined."""
    return tl.maximum((x - centre) * factor, -1e30, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def take(x, tile, centre, best, at, total, square, weighted, FTZ: tl.constexpr):
    """Add a tile to the lanes' sums and maxima."""
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
    logits,
    base,
    shift,
    width,
    centre,
    LANES: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
    FTZ: tl.constexpr,
):
    """One read of a row: by lane the maximum and its tile, Σ e, Σ e² and Σ e·log2 e."""
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
    logits,
    targets,
    out,
    predicted,
    stride,
    width,
    rows,
    LANES: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
    FTZ: tl.constexpr,
):
    """Row by row: confidence, Σ P², P(y), -log P(y), entropy, log normaliser, maximum; argmax."""
    row = tl.program_id(0).to(tl.int64)
    first = row * stride
    base = first // VEC * VEC
    shift = (first - base).to(tl.int32)
    # Any number near the maximum will do to keep e^x in range: that of the first tile nearly does.
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
    again = tl.load(logits + base + place, mask=holds, other=-float("inf")).to(tl.float32)
    index = tl.min(tl.where(holds & (again == highest), place - shift, width - 1))

    wanted = tl.load(logits + first + tl.load(targets + row)).to(tl.float32)
    log_total = tl.log2(total)
    hit = tl.exp2(exponent(wanted, centre, LOG2E) - log_total)
    tl.store(predicted + row, index)
    tl.store(out + row, tl.exp2((highest - centre) * LOG2E - log_total))
    tl.store(out + rows + row, square / (total * total))
    tl.store(out + 2 * rows + row, hit)
    tl.store(out + 3 * rows + row, (centre - wanted) + log_total * LN2)
    tl.store(out + 4 * rows + row, (log_total - weighted / total) * LN2)
    tl.store(out + 5 * rows + row, centre + log_total * LN2)
    tl.store(out + 6 * rows + row, highest)


@triton.jit
def weigh(x, highest, sharp, HOT: tl.constexpr, FTZ: tl.constexpr):
    """e^{x - max} and the decoder's weight of it, the same where the temperature is 1."""
    e = exp2(exponent(x, highest, LOG2E), FTZ)
    if HOT:
        return e, exp2(exponent(x, highest, LOG2E * sharp), FTZ)
    return e, e


@triton.jit
def probe(
    x, low, high, t1, t2, t3, lo, hi, a1, a2, a3, highest, sharp,
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
    held = (x > lo) & (x <= hi)
    low = tl.minimum(low, tl.min(tl.where(held, x, float("inf")), axis=1))
    high = tl.maximum(high, tl.max(tl.where(held, x, -float("inf")), axis=1))
    return low, high, a1, a2, a3


@triton.jit
def above(
    logits, base, shift, width, t1, t2, t3, lo, hi, highest, sharp,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """One read: what lies above three thresholds, and the extremes of what lies in (lo, hi]."""
    TILE: tl.constexpr = LANES * VEC
    low = tl.full([LANES], float("inf"), tl.float32)
    high = tl.full([LANES], -float("inf"), tl.float32)
    a1 = tl.zeros([LANES], tl.float32)
    a2 = tl.zeros([LANES], tl.float32)
    a3 = tl.zeros([LANES], tl.float32)
    x = tile_of(logits, base, 0, shift, width, LANES, VEC, False)
    low, high, a1, a2, a3 = probe(
        x, low, high, t1, t2, t3, lo, hi, a1, a2, a3, highest, sharp, MODE, HOT, FTZ
    )
    whole = (shift + width) // TILE
    for tile in tl.range(1, whole, num_stages=STAGES):
        x = tile_of(logits, base, tile * TILE, shift, width, LANES, VEC, True)
        low, high, a1, a2, a3 = probe(
            x, low, high, t1, t2, t3, lo, hi, a1, a2, a3, highest, sharp, MODE, HOT, FTZ
        )
    last = tl.maximum(whole, 1) * TILE
    x = tile_of(logits, base, last, shift, width, LANES, VEC, False)
    low, high, a1, a2, a3 = probe(
        x, low, high, t1, t2, t3, lo, hi, a1, a2, a3, highest, sharp, MODE, HOT, FTZ
    )
    return tl.min(low), tl.max(high), tl.sum(a1), tl.sum(a2), tl.sum(a3)


@triton.jit
def add_kept(
    x, place, edge, target, mass, cross, ties, behind, highest, sharp,
    HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Add a tile to Σ w and Σ w·e above the edge, and count what equals it."""
    e, w = weigh(x, highest, sharp, HOT, FTZ)
    kept = tl.where(x > edge, w, 0.0)
    equal = x == edge
    mass += tl.sum(kept, axis=1)
    cross += tl.sum(kept * e, axis=1)
    ties += tl.sum(equal.to(tl.int32), axis=1)
    behind += tl.sum((equal & (place > target)).to(tl.int32), axis=1)
    return mass, cross, ties, behind


@triton.jit
def kept_sums(
    logits, base, shift, width, edge, target, highest, sharp,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """One read: Σ w and Σ w·e above the edge, the number equal to it, and of those behind y."""
    TILE: tl.constexpr = LANES * VEC
    mass = tl.zeros([LANES], tl.float32)
    cross = tl.zeros([LANES], tl.float32)
    ties = tl.zeros([LANES], tl.int32)
    behind = tl.zeros([LANES], tl.int32)
    inner = tl.arange(0, LANES)[:, None] * VEC + tl.arange(0, VEC)[None, :] - shift
    x = tile_of(logits, base, 0, shift, width, LANES, VEC, False)
    mass, cross, ties, behind = add_kept(
        x, inner, edge, target, mass, cross, ties, behind, highest, sharp, HOT, FTZ
    )
    whole = (shift + width) // TILE
    for tile in tl.range(1, whole, num_stages=STAGES):
        x = tile_of(logits, base, tile * TILE, shift, width, LANES, VEC, True)
        mass, cross, ties, behind = add_kept(
            x, inner + tile * TILE, edge, target, mass, cross, ties, behind, highest, sharp,
            HOT, FTZ,
        )  # fmt: skip
    last = tl.maximum(whole, 1) * TILE
    x = tile_of(logits, base, last, shift, width, LANES, VEC, False)
    mass, cross, ties, behind = add_kept(
        x, inner + last, edge, target, mass, cross, ties, behind, highest, sharp, HOT, FTZ
    )
    return tl.sum(mass), tl.sum(cross), tl.sum(ties), tl.sum(behind)


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
def edge_of(
    logits, base, shift, width, lo, hi, need, over, highest, sharp,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """The least number that stays: the least v with less than `need` above it.

    Three thresholds a read: the middle of the bracket, and two around where the amounts at its ends
    put the edge. Ends when all numbers left in the bracket are equal.
    """
    under = 0.0
    edge = hi
    passes = 0
    while passes < MOST_PASSES:
        gap = hi - lo
        t2 = lo + 0.5 * gap
        guess = lo + gap * tl.minimum(tl.maximum((over - need) / (over - under), 0.0), 1.0)
        guess = tl.where(passes == 0, t2, guess)
        reach = tl.where(passes == 0, 0.25, 0.0625) * gap
        t1 = tl.maximum(guess - reach, lo)
        t3 = tl.minimum(guess + reach, hi)
        low, high, a1, a2, a3 = above(
            logits, base, shift, width, t1, t2, t3, lo, hi, highest, sharp,
            LANES, VEC, STAGES, MODE, HOT, FTZ,
        )  # fmt: skip
        passes += 1
        if low < high:
            hi = tl.minimum(hi, high)
            lo, hi, over, under = nearer(t1, a1, need, lo, hi, over, under)
            lo, hi, over, under = nearer(t2, a2, need, lo, hi, over, under)
            lo, hi, over, under = nearer(t3, a3, need, lo, hi, over, under)
        else:
            edge = high
            passes = MOST_PASSES
    return edge


@triton.jit
def decoded_kernel(
    logits, targets, plain, out, stride, width, rows, sharp, limit,
    LANES: tl.constexpr, VEC: tl.constexpr, STAGES: tl.constexpr,
    MODE: tl.constexpr, HOT: tl.constexpr, FTZ: tl.constexpr,
):  # fmt: skip
    """Row by row p̃ and ã under temperature 1/sharp with none, top-k or top-p (`limit`)."""
    row = tl.program_id(0).to(tl.int64)
    first = row * stride
    base = first // VEC * VEC
    shift = (first - base).to(tl.int32)
    # The greatest P rather than the log normaliser, which loses digits where logits are large.
    confidence = tl.load(plain + row)
    highest = tl.load(plain + 6 * rows + row)
    target = tl.load(targets + row).to(tl.int32)
    wanted = tl.load(logits + first + target).to(tl.float32)
    total = 1.0 / confidence
    edge = -float("inf")
    if HOT:
        if MODE != TOP_K:
            total, _, _, _ = kept_sums(
                logits, base, shift, width, edge, target, highest, sharp,
                LANES, VEC, STAGES, HOT, FTZ,
            )  # fmt: skip
    if MODE == TOP_P:
        # All numbers up to `lo` together have less than the mass that is dropped.
        lo = highest + tl.log2((1.0 - limit) * total / width) * LN2 / sharp - 0.01
        edge = edge_of(
            logits, base, shift, width, lo, highest, limit * total, total, highest, sharp,
            LANES, VEC, STAGES, MODE, HOT, FTZ,
        )  # fmt: skip
    if MODE == TOP_K:
        low, _, a1, a2, a3 = above(
            logits, base, shift, width, LEAST, highest - 4.0, highest - 10.0, LEAST, highest,
            highest, sharp, LANES, VEC, STAGES, MODE, HOT, FTZ,
        )  # fmt: skip
        if a1 >= limit:
            lo = low - tl.maximum(1.0, tl.abs(low) * 0.001)
            hi = highest
            over = a1
            under = 0.0
            lo, hi, over, under = nearer(highest - 10.0, a3, limit, lo, hi, over, under)
            lo, hi, over, under = nearer(highest - 4.0, a2, limit, lo, hi, over, under)
            edge = edge_of(
                logits, base, shift, width, lo, hi, limit, over, highest, sharp,
                LANES, VEC, STAGES, MODE, HOT, FTZ,
            )  # fmt: skip
    mass, cross, ties, behind = kept_sums(
        logits, base, shift, width, edge, target, highest, sharp, LANES, VEC, STAGES, HOT, FTZ
    )
    own = tl.exp2(exponent(edge, highest, LOG2E))
    weight = tl.exp2(exponent(edge, highest, LOG2E * sharp))
    room = ties
    if MODE == TOP_P:
        fits = tl.ceil((limit * total - mass) / tl.maximum(weight, 1e-38))
        room = tl.minimum(tl.maximum(fits, 1.0), ties.to(tl.float32)).to(tl.int32)
    added = weight * room.to(tl.float32)
    mass += added
    cross += added * own
    stays = (wanted > edge) | ((wanted == edge) & (behind < room))
    chance = tl.exp2(exponent(wanted, highest, LOG2E * sharp)) / mass
    tl.store(out + row, cross / mass * confidence)
    tl.store(out + rows + row, tl.where(stays, chance, 0.0))
