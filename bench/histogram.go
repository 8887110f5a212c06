package bench

import (
	"math/bits"
	"slices"
	"time"
)

// histogram counts durations in buckets of at most 1/16 width, so that a
// quantile is exact to about six per cent at any size and costs nothing to keep.
type histogram struct {
	buckets [64 * 16]int64
	count   int64
	longest time.Duration
}

func bucketOf(d time.Duration) int {
	if d < 16 {
		return int(max(d, 0))
	}
	top := bits.Len64(uint64(d)) - 5
	return min((top+1)*16+int(d>>top)&15, 64*16-1)
}

func valueOf(bucket int) time.Duration {
	if bucket < 16 {
		return time.Duration(bucket)
	}
	top := bucket/16 - 1
	return time.Duration(16+bucket%16) << top
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(d)]++
	h.count++
	h.longest = max(h.longest, d)
}

func (h *histogram) merge(o *histogram) {
	if o == nil {
		return
	}
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	h.count += o.count
	h.longest = max(h.longest, o.longest)
}

func (h *histogram) at(q float64) time.Duration {
	want := int64(q * float64(h.count))
	for i, n := range h.buckets {
		if want -= n; want < 0 {
			return valueOf(i)
		}
	}
	return h.longest
}

func (h *histogram) quantiles() Quantiles {
	if h.count == 0 {
		return Quantiles{}
	}
	return Quantiles{P50: h.at(0.5), P99: h.at(0.99), Max: h.longest}
}

// quantilesOf is of single measurements.
func quantilesOf(ds []time.Duration) Quantiles {
	if len(ds) == 0 {
		return Quantiles{}
	}
	s := slices.Sorted(slices.Values(ds))
	return Quantiles{P50: s[len(s)/2], P99: s[min(len(s)*99/100, len(s)-1)], Max: s[len(s)-1]}
}
