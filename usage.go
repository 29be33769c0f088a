package stepwell

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Usage is what models have read and written for a step or an execution, in all its attempts.
type Usage struct {
	InputTokens  int64 `json:"in,omitempty" hidden:"true"`
	OutputTokens int64 `json:"out,omitempty" hidden:"true"`
	AudioMillis  int64 `json:"audio,omitempty" hidden:"true"` // length of the audio
	// Resources are never changed once they are here. Nil: nothing is known of them.
	Resources *Resources `json:"res,omitempty" hidden:"true"`
}

// Resources are what the programs and requests of attempts have used of machine and network. A member is zero when
// nothing was used or nothing is known of it.
type Resources struct {
	CPUSeconds float64 `json:"cpu_seconds,omitempty" doc:"Processor time of the programs that it ran."`
	MaxRSS     int64   `json:"max_rss_bytes,omitempty" doc:"The most memory that one of these programs had, where it is known: on Linux, of those that had more than the process that started them."`
	BytesIn    int64   `json:"bytes_in,omitempty" doc:"Bytes of the bodies of answers, as they came over the network, and of git's connections."`
	BytesOut   int64   `json:"bytes_out,omitempty" doc:"Bytes of the bodies of requests, and of git's connections."`
}

// plus adds up; of the memory it is the larger one.
func (r *Resources) plus(more *Resources) *Resources {
	if r == nil || more == nil {
		return cmp.Or(r, more)
	}
	sum := func(a, b int64) int64 { return a + min(max(b, 0), math.MaxInt64-a) }
	return &Resources{r.CPUSeconds + max(more.CPUSeconds, 0), max(r.MaxRSS, more.MaxRSS), sum(r.BytesIn, more.BytesIn), sum(r.BytesOut, more.BytesOut)}
}

// Spending is a usage with its cost, in millionths (1e-6) of the unit of money.
type Spending struct {
	Cost int64
	Usage
}

// None reports whether nothing was spent; a cost below zero is none.
func (s *Spending) None() bool { return s.Cost <= 0 && s.Usage == Usage{} }

// Plus is the sum, of the resources' memory the larger one. A sum stops at the greatest number, and what is below zero adds nothing.
func (s Spending) Plus(more Spending) Spending {
	for i, to := range s.figures() {
		if n := max(*more.figures()[i], 0); *to > math.MaxInt64-n {
			*to = math.MaxInt64
		} else {
			*to += n
		}
	}
	s.Resources = s.Resources.plus(more.Resources)
	return s
}

func (s *Spending) figures() [4]*int64 {
	return [...]*int64{&s.Cost, &s.InputTokens, &s.OutputTokens, &s.AudioMillis}
}

// AppendList adds ",cost", and where there is a usage ",cost,input,output,audio" or ",cost,input,output,audio,{resources}", to
// a JSON array.
func (s Spending) AppendList(to []byte) []byte {
	list := s.figures()
	n := 1
	if s.Usage != (Usage{}) {
		n = len(list)
	}
	for _, figure := range list[:n] {
		to = strconv.AppendInt(append(to, ','), max(*figure, 0), 10)
	}
	if s.Resources != nil {
		if raw, err := json.Marshal(s.Resources); err == nil { // numbers that are not finite are left out
			to = append(append(to, ','), raw...)
		}
	}
	return to
}

// ReadList reads what AppendList has added: nothing, one number, or four of them and maybe resources.
func (s *Spending) ReadList(list []json.RawMessage) error {
	if len(list) == 5 {
		if err := json.Unmarshal(list[4], &s.Resources); err != nil {
			return err
		}
		list = list[:4]
	}
	if len(list) > 1 && len(list) != 4 {
		return fmt.Errorf("a spending of %d numbers", len(list))
	}
	for i, raw := range list {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return err
		}
		*s.figures()[i] = n
	}
	return nil
}
