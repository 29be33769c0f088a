package expr

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestMember(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`{"result":1}`, `1`},
		{` { "a" : [1,{"result":2}], "result" : "x,}" , "b":{} } `, `"x,}"`},
		{`{"result":{"result":3}}`, `{"result":3}`},
		{`{"\u0072esult":null}`, `null`},
		{`{"result":1,"result":2}`, `2`},
		{`{"a":"\"result\":1"}`, ``},
		{`{"Result":1}`, ``},
		{`{}`, ``}, {`[]`, ``}, {``, ``}, {`"result"`, ``}, {`[{"result":1}]`, ``},
	} {
		if got := Raw(c.raw).Member("result"); string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.raw, got, c.want)
		}
	}
}

// FuzzMember: a member is what decoding the whole object gives.
func FuzzMember(f *testing.F) {
	f.Add(`{"a":{"b":"}"},"result":[1,2,"\\\""]}`, "result")
	f.Add(`{"result":1`, "result")
	f.Add(`{"a`, "a")
	f.Add(`{"a":`, "a")
	f.Fuzz(func(t *testing.T, raw, name string) {
		got := Raw(raw).Member(name)
		v, err := Decode([]byte(raw))
		if err != nil || !json.Valid([]byte(raw)) {
			return // it need only not panic
		}
		m, _ := v.(map[string]any)
		want, there := m[name]
		if there != (got != nil) {
			t.Fatalf("%q of %q: %s, there %t", name, raw, got, there)
		}
		if !there {
			return
		}
		if have, err := Decode(got); err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%q of %q: %s", name, raw, got)
		}
	})
}
