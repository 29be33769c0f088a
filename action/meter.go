package action

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
)

// Meter counts what the programs and the requests of one attempt use of machine and network. The worker gives each attempt
// one in its context; code that runs programs or sends bodies adds to it. Its methods are safe for concurrent use, and
// do nothing on a nil Meter.
type Meter struct{ cpu, memory, in, out atomic.Int64 }

// MeterKey is the key of an attempt's meter in its context.
type MeterKey struct{}

// MeterOf is the meter of the attempt that ctx belongs to, nil if it belongs to none.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(MeterKey{}).(*Meter)
	return m
}

// Program adds a program that has ended: its processor time, and the most memory that it had, in bytes, 0 if that is not
// known. Of several programs the largest memory counts.
func (m *Meter) Program(cpu time.Duration, memory int64) {
	if m == nil {
		return
	}
	m.cpu.Add(max(cpu.Microseconds(), 0))
	for most := m.memory.Load(); memory > most && !m.memory.CompareAndSwap(most, memory); most = m.memory.Load() {
	}
}

// Traffic adds bytes that came in and went out.
func (m *Meter) Traffic(in, out int64) {
	if m != nil && (in > 0 || out > 0) {
		m.in.Add(in)
		m.out.Add(out)
	}
}

// Used is the sum so far, nil if nothing is known.
func (m *Meter) Used() *stepwell.Resources {
	if m == nil {
		return nil
	}
	cpu, memory, in, out := m.cpu.Load(), m.memory.Load(), m.in.Load(), m.out.Load()
	if cpu == 0 && memory == 0 && in == 0 && out == 0 { // most steps: this costs no memory
		return nil
	}
	return &stepwell.Resources{CPUSeconds: float64(cpu) / 1e6, MaxRSS: memory, BytesIn: in, BytesOut: out}
}
