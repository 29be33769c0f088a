package schedule

import (
	"hash/fnv"
	"math/bits"
	"time"
)

// Jitter is how long after its time a firing is carried out, from 0 to less than Spec.Jitter. It
// depends on nothing but the schedule's id and the time, so every node comes to the same result and may
// ask again; schedules with the same times are spread evenly. It never reaches the next firing, so
// the order stays.
func (s *Schedule) Jitter(id string, nominal time.Time) time.Duration {
	window := s.spec.Jitter
	if window <= 0 {
		return 0
	}
	if next, ok := s.Next(nominal); ok {
		window = min(window, next.Sub(nominal))
	}
	hash := fnv.New64a()
	hash.Write([]byte(id)) // never fails
	share, _ := bits.Mul64(scatter(scatter(hash.Sum64())^uint64(nominal.Unix())), uint64(window))
	return time.Duration(share)
}

// scatter spreads close numbers over the whole range: the last step of SplitMix64 (Steele, Lea and
// Flood, 2014).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
