package parquet

import (
	"github.com/parquet-go/parquet-go"
)

// rows are some rows, spread over the columns. Several goroutines may each spread rows of their own.
type rows struct {
	root    *slot
	values  [][]parquet.Value // per column
	before  []int             // lengths of values before the row at hand
	scratch []byte            // of binary values
	visit   int
	n       int // rows
	text    int // bytes of their text

	waiting [][]byte // texts that are to be spread
	last    bool     // a row group ends behind them
	err     error
	spread  chan struct{}
}

func newRows(s Schema) *rows {
	root := place(&Type{Kind: Struct, Required: true, Fields: s.clone()}, 0, 0, 0) // its own copy: slots record the values they have met
	return &rows{root: root, values: make([][]parquet.Value, root.end), before: make([]int, root.end), spread: make(chan struct{}, 1)}
}

// add spreads a row. After a RowError nothing of it is left.
func (r *rows) add(text []byte) error {
	for i := range r.values {
		r.before[i] = len(r.values[i])
	}
	if err := r.put(r.root, &scan{b: text}, 0, 0); err != nil {
		for i := range r.values {
			r.values[i] = r.values[i][:r.before[i]]
		}
		return err
	}
	r.n++
	r.text += len(text)
	return nil
}

// addWaiting spreads the waiting rows. After an error n is the number of rows before it.
func (r *rows) addWaiting() error {
	for _, text := range r.waiting {
		if err := r.add(text); err != nil {
			return err
		}
	}
	return nil
}

// reset makes room for others.
func (r *rows) reset() {
	for i, values := range r.values {
		clear(values)
		r.values[i] = values[:0]
	}
	clear(r.waiting)
	r.n, r.text, r.scratch, r.waiting, r.last, r.err = 0, 0, r.scratch[:0], r.waiting[:0], false, nil
}

func (r *rows) nulls(s *slot, rep, def int) {
	for c := s.first; c < s.end; c++ {
		r.values[c] = append(r.values[c], parquet.Value{}.Level(rep, def, c))
	}
}

// put moves past a value and spreads it over the columns of a slot. around is the definition level of the parent.
func (r *rows) put(s *slot, p *scan, rep, around int) *RowError {
	if p.null() {
		if s.Required {
			return misfit("must not be null or absent")
		}
		r.nulls(s, rep, around)
		return nil
	}
	switch first := p.peek(); {
	case s.Kind == Struct && first == '{':
		return r.members(s, p, rep)
	case s.Kind == List && first == '[':
		return r.elements(s, p, rep)
	}
	val, err := r.leaf(s.Type, p.value())
	if err != nil {
		return err
	}
	r.values[s.first] = append(r.values[s.first], val.Level(rep, s.def, s.first))
	return nil
}

func (r *rows) members(s *slot, p *scan, rep int) *RowError {
	r.visit++
	visit, guess := r.visit, 0
	p.i++
	for n := 0; p.more(n); n++ {
		at, name, known := s.at(p, guess)
		if !known {
			if p.null() {
				continue
			}
			return misfit("not in the schema").under(string(name))
		}
		if err := r.put(s.kids[at], p, rep, s.def); err != nil {
			return err.under(s.Fields[at].Name)
		}
		s.kids[at].seen = visit
		guess = at + 1
	}
	for i, kid := range s.kids {
		if kid.seen == visit {
			continue
		}
		if kid.Required {
			return misfit("must not be null or absent").under(s.Fields[i].Name)
		}
		r.nulls(kid, rep, s.def)
	}
	return nil
}

func (r *rows) elements(s *slot, p *scan, rep int) *RowError {
	p.i++
	n := 0
	for ; p.more(n); n++ {
		if n == 1 {
			rep = s.rep
		}
		if err := r.put(s.kids[0], p, rep, s.def+1); err != nil {
			return err.inList()
		}
	}
	if n == 0 {
		r.nulls(s, rep, s.def)
	}
	return nil
}

// leaf makes a column's value of a text other than null.
func (r *rows) leaf(t *Type, text []byte) (parquet.Value, *RowError) {
	number := text[0] == '-' || text[0] >= '0' && text[0] <= '9'
	switch t.Kind {
	case Bool:
		if text[0] == 't' || text[0] == 'f' {
			return parquet.BooleanValue(text[0] == 't'), nil
		}
	case Int:
		if n, ok := int64Of(text); number && ok {
			return parquet.Int64Value(n), nil
		}
	case Double:
		if number {
			if f, ok := doubleOf(text); ok {
				return parquet.DoubleValue(f), nil
			}
		}
	case Timestamp:
		if text[0] == '"' {
			if us, ok := micros(plainText(text)); ok {
				return parquet.Int64Value(us), nil
			}
		}
	case Binary:
		start := len(r.scratch)
		if out, err := t.encode(r.scratch, text); err == nil {
			r.scratch = out
			return parquet.ByteArrayValue(out[start:len(out):len(out)]), nil
		}
	case JSON:
		return parquet.ByteArrayValue(text), nil
	case List, Struct:
	default:
		if text[0] == '"' {
			return parquet.ByteArrayValue(plainText(text)), nil
		}
	}
	return parquet.Value{}, reason(t, text)
}
