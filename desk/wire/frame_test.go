package wire_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell/desk/wire"
)

// frames reads messages that a client has sent as frames of a stream, one after the other.
func frames(t *testing.T, messages ...string) (list []wire.Frame) {
	t.Helper()
	done := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		conn.SetReadLimit(wire.MaxBody)
		for range messages {
			_, f, err := wire.ReadFrame(context.Background(), conn)
			if err != nil {
				t.Error(err)
				return
			}
			list = append(list, f)
		}
	}))
	defer s.Close()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	for _, m := range messages {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	return list
}

// request is what a frame says, read as the desk reads it: quickly, and where that finds no body again as a whole.
func request(f *wire.Frame) (in wire.Request, err error) {
	if in, err = f.Request(); err == nil && !wire.Whole(in.Body) {
		in = wire.Request{}
		err = f.Read(&in)
	}
	return in, err
}

// The fast reader gives the same results as encoding/json for every form that a frame of a foreign worker may have.
func TestFrame(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	requests := []string{
		`{"no":1,"call":"turn","body":{"worker":"w"}}`,
		`{"no":12345,"call":"steps/a%3A1/outputs/","body":{"a":"` + long + `"}}`,
		`{ "no": 1, "call": "turn", "body": {} }`,
		`{"no":1,"call":"turn","body":{}, "more":[1]}`,
		`{"no":1,"call":"turn","body":{},"more":"}"}`,
		`{"call":"turn","no":7,"body":{}}`,
		`{"body":{"no":2,"call":"x","body":{}},"no":1,"call":"turn"}`,
		`{"no":1,"call":"t\u0075rn","body":{}}`,
		`{"no":1,"call":"a\",\"body\":","body":{}}`,
		`{"no":1,"extra":{"call":"no","body":{}},"call":"turn","body":{}}`,
		`{"no":-1,"call":"turn","body":null}`,
		`{"no":1,"call":"turn"}`,
		"{\"no\":1,\"call\":\"turn\",\"body\":{}}\n",
		`{"no":1,"call":"turn","body":`, `{"no":1,"call":"turn","body":}`, `{"no":1,"call":"turn","body":{}`, `{"no":1,"call":"turn","body":{}}}`,
		`{"no":1,"call":"turn","body":{}}{"no":2}`, `{"no":+1,"call":"turn","body":{]}`, `{"no":"1","call":"turn","body":{}}`, ``, `[]`, long,
	}
	for i, f := range frames(t, requests...) {
		var want wire.Request
		wrong := json.Unmarshal([]byte(requests[i]), &want)
		got, err := request(&f)
		if (err == nil) != (wrong == nil) || err == nil && (got.No != want.No || got.Call != want.Call || string(got.Body) != string(want.Body)) {
			t.Errorf("%.80s is read as %+v, %v instead of %+v, %v", requests[i], got, err, want, wrong)
		}
		f.Free()
	}
	responses := []string{`{"no":3,"status":200,"body":{"tasks":["` + long + `"]}}`, `{"no":3,"status":404,"body":{}}`, `{"status":200,"no":3,"body":{}}`, `{"no":3,"status":200,"body":[1],"more":1}`,
		`{"no":3,"status":70000,"body":{}}`, `{"no":3,"status":"200","body":{}}`}
	for i, f := range frames(t, responses...) {
		var want wire.Response
		wrong := json.Unmarshal([]byte(responses[i]), &want)
		got, err := f.Response()
		if err == nil && !wire.Whole(got.Body) {
			got = wire.Response{}
			err = f.Read(&got)
		}
		if (err == nil) != (wrong == nil) || err == nil && (got.No != want.No || got.Status != want.Status || string(got.Body) != string(want.Body)) {
			t.Errorf("%.80s is read as %+v, %v instead of %+v, %v", responses[i], got, err, want, wrong)
		}
	}
}

// Frames of Encode are decoded without reading the body twice, and reused memory keeps nothing of an earlier frame.
func TestEncode(t *testing.T) {
	for _, size := range []int{100_000, 10, 5_000} {
		body := map[string]string{"data": strings.Repeat("y", size)}
		raw, err := wire.Encode(wire.Request{No: 5, Call: "turn", Body: must(json.Marshal(body))})
		if err != nil {
			t.Fatal(err)
		}
		list := frames(t, string(raw.Bytes()))
		raw.Free()
		in, err := list[0].Request()
		var got map[string]string
		if err != nil || in.No != 5 || in.Call != "turn" || json.Unmarshal(in.Body, &got) != nil || got["data"] != body["data"] {
			t.Errorf("read as %d %q with %d bytes, %v", in.No, in.Call, len(in.Body), err)
		}
		list[0].Free()
	}
	if _, err := wire.Encode(func() {}); err == nil {
		t.Error("a function has been written")
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}
