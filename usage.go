package stepwell

import (
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
}

// Spending is a usage with its cost, in millionths (1e-6) of the unit of money.
type Spending struct {
	Cost int64
	Usage
}

// None reports whether nothing was spent; a cost below zero is none.
func (s *Spending) None() bool { return s.Cost <= 0 && s.Usage == Usage{} }

// Plus is the sum. A sum stops at the greatest number, and what is below zero adds nothing.
func (s Spending) Plus(more Spending) Spending {
	for i, to := range s.figures() {
		if n := max(*more.figures()[i], 0); *to > math.MaxInt64-n {
			*to = math.MaxInt64
		} else {
			*to += n
		}
	}
	return s
}

func (s *Spending) figures() [4]*int64 {
	return [...]*int64{&s.Cost, &s.InputTokens, &s.OutputTokens, &s.AudioMillis}
}

// AppendList adds ",cost", and where there is a usage ",cost,input,output,audio", to a JSON array.
func (s Spending) AppendList(to []byte) []byte {
	list := s.figures()
	n := 1
	if s.Usage != (Usage{}) {
		n = len(list)
	}
	for _, figure := range list[:n] {
		to = strconv.AppendInt(append(to, ','), max(*figure, 0), 10)
	}
	return to
}

// ReadList reads what AppendList has added: nothing, one number or four.
func (s *Spending) ReadList(list []json.RawMessage) error {
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
