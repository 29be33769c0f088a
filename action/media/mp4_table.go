package media

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	mp4 "github.com/abema/go-mp4"
)

// rate gathers sample durations. A constant one gives an exact fraction; the last sample often
// differs and does not count.
type rate struct {
	samples  uint64
	ticks    float64
	delta    uint32 // the first duration
	variable bool
}

func (r *rate) add(count, delta uint32, last bool) {
	if count == 0 {
		return
	}
	if r.samples == 0 {
		r.delta = delta
	} else if delta != r.delta && !(last && count == 1) {
		r.variable = true
	}
	r.samples += uint64(count)
	r.ticks += float64(count) * float64(delta)
}

func (r rate) fraction(timescale uint32) string {
	num, den := uint64(timescale), uint64(r.delta)
	if r.variable {
		hi, lo := bits.Mul64(r.samples, uint64(timescale))
		if hi != 0 || r.ticks > 1<<53 {
			return ""
		}
		num, den = lo, uint64(r.ticks)
	}
	if r.samples == 0 || num == 0 || den == 0 {
		return ""
	}
	a, b := num, den
	for b != 0 {
		a, b = b, a%b
	}
	return fmt.Sprintf("%d/%d", num/a, den/a)
}

// readTable reads one box of stbl. Tables are streamed, not held.
func (v *movie) readTable(x box, t *track) error {
	switch name4(x.typ) {
	case "stsd":
		return v.readStsd(x, t)
	case "stts":
		return v.rows(x, 8, func(row []byte, last bool) {
			t.rate.add(binary.BigEndian.Uint32(row), binary.BigEndian.Uint32(row[4:]), last)
		})
	case "stsz", "stz2":
		var h [12]byte
		if err := v.full(h[:], x.body); err != nil {
			return fmt.Errorf("sample sizes: %w", err)
		}
		t.stream.Frames = uint64(binary.BigEndian.Uint32(h[8:]))
	case "stco":
		return v.chunks(x, 4)
	case "co64":
		return v.chunks(x, 8)
	}
	return nil
}

// rows calls f for each row of a table with a version, flags and a count before it.
func (v *movie) rows(x box, width int64, f func(row []byte, last bool)) error {
	var h [8]byte
	if x.end-x.body < 8 {
		return fmt.Errorf("table %q at %d is cut", name4(x.typ), x.start)
	}
	if err := v.full(h[:], x.body); err != nil {
		return fmt.Errorf("table %q at %d: %w", name4(x.typ), x.start, err)
	}
	count := int64(binary.BigEndian.Uint32(h[4:]))
	if room := (x.end - x.body - 8) / width; count > room {
		v.m.lost("table %q at %d promises %d rows and has room for %d", name4(x.typ), x.start, count, room)
		count = room
	}
	return v.eachRow(x.body+8, count, width, f)
}

func (v *movie) eachRow(at, count, width int64, f func(row []byte, last bool)) error {
	block := make([]byte, 8192/width*width)
	for done := int64(0); done < count; {
		n := min(count-done, int64(len(block))/width)
		if err := v.full(block[:n*width], at+done*width); err != nil {
			return fmt.Errorf("table at %d: %w", at, err)
		}
		for i := int64(0); i < n; i++ {
			f(block[i*width:(i+1)*width], done+i == count-1)
		}
		done += n
	}
	return nil
}

// chunks looks for media beyond the end of the file: the sign of a cut file whose boxes look whole.
func (v *movie) chunks(x box, width int64) error {
	beyond, total := 0, 0
	err := v.rows(x, width, func(row []byte, _ bool) {
		off := uint64(binary.BigEndian.Uint32(row))
		if width == 8 {
			off = binary.BigEndian.Uint64(row)
		}
		if total++; off >= uint64(v.b.size) {
			beyond++
		}
	})
	if beyond > 0 {
		v.m.cut("%d of %d chunks of a track lie beyond the end of the file", beyond, total)
	}
	return err
}

// readTraf adds one track's fragment (ISO 14496-12 §8.8).
func (v *movie) readTraf(traf box) error {
	var t *track
	var duration uint32 // default of a sample
	return v.each(traf.body, traf.end, func(x box) error {
		switch name4(x.typ) {
		case "tfhd":
			var h mp4.Tfhd
			if _, ok := v.decode(x, &h); !ok {
				return nil
			}
			if t = v.fragmentTrack(h.TrackID); t == nil {
				return fmt.Errorf("more than %d tracks", maxTracks)
			}
			if !t.inFragments { // the first one goes on from the samples of the movie header
				t.inFragments, t.fragFrom, t.fragTo = true, t.rate.ticks, t.rate.ticks
			}
			duration = v.trex[h.TrackID]
			if h.CheckFlag(mp4.TfhdDefaultSampleDurationPresent) {
				duration = h.DefaultSampleDuration
			}
		case "tfdt":
			var h mp4.Tfdt
			if _, ok := v.decode(x, &h); ok && t != nil {
				t.fragTo = math.Max(t.fragTo, float64(h.GetBaseMediaDecodeTime()))
			}
		case "trun":
			if t != nil {
				return v.readTrun(x, t, duration)
			}
		}
		return nil
	})
}

// fragmentTrack finds the track of a fragment; without a movie header it is new and without a
// timescale.
func (v *movie) fragmentTrack(id uint32) *track {
	for _, t := range v.tracks {
		if t.id == id {
			return t
		}
	}
	if len(v.tracks) >= maxTracks {
		return nil
	}
	t := &track{id: id}
	v.tracks = append(v.tracks, t)
	return t
}

func (v *movie) readTrun(x box, t *track, duration uint32) error {
	var h [8]byte
	if x.end-x.body < 8 {
		return fmt.Errorf("fragment run at %d is cut", x.start)
	}
	if err := v.full(h[:], x.body); err != nil {
		return fmt.Errorf("fragment run at %d: %w", x.start, err)
	}
	flags, count := binary.BigEndian.Uint32(h[:4])&0xffffff, binary.BigEndian.Uint32(h[4:])
	at := x.body + 8
	at += 4*int64(flags&1) + 4*int64(flags>>2&1) // data offset, first sample flags
	width := 4 * int64(bits.OnesCount32(flags&0xf00))
	rows := int64(count)
	if room := max(x.end-at, 0); width > 0 && rows > room/width {
		v.m.lost("the fragment run at %d promises %d samples and has room for %d", x.start, rows, room/width)
		rows = room / width
	}
	t.fragFrames += uint64(rows)
	if flags&0x100 == 0 {
		t.fragRate.add(uint32(rows), duration, false)
		t.fragTo += float64(rows) * float64(duration)
		return nil
	}
	return v.eachRow(at, rows, width, func(row []byte, last bool) {
		d := binary.BigEndian.Uint32(row)
		t.fragRate.add(1, d, last)
		t.fragTo += float64(d)
	})
}
