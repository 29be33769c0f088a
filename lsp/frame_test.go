package lsp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFramesThatAreNone(t *testing.T) {
	for _, in := range []string{"hello\r\n\r\n", "\r\n", "Content-Length: -1\r\n\r\n", "Content-Length: 99999999999\r\n\r\n", "Content-Length: 5\r\n\r\nab", "Content-Length: 5",
		strings.Repeat("A: b\r\n", 2000), "A: " + strings.Repeat("b", 10000)} {
		if body, err := readMessage(bufio.NewReaderSize(strings.NewReader(in), maxHeader)); !errors.Is(err, errFrame) {
			t.Errorf("%.40q is read: %q, %v", in, body, err)
		}
	}
	if _, err := readMessage(bufio.NewReader(strings.NewReader(""))); !errors.Is(err, io.EOF) || errors.Is(err, errFrame) {
		t.Errorf("the end is %v", err)
	}
}

// FuzzFrames reads whatever comes: no panic, no more memory than comes in, and what was written is read again.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}Content-Length: 2\r\n\r\n[]"))
	f.Add([]byte("content-length:0\n\nContent-Type: x\r\nContent-Length: 70000000\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(in), maxHeader)
		for {
			body, err := readMessage(r)
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, errFrame) {
					t.Fatal(err)
				}
				break
			}
			if len(body) > len(in) {
				t.Fatalf("%d bytes of %d", len(body), len(in))
			}
		}
		var b bytes.Buffer
		if err := writeMessage(&b, string(in)); err != nil {
			t.Fatal(err)
		}
		if _, err := readMessage(bufio.NewReader(&b)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPositions goes from positions to bytes and back in any text.
func FuzzPositions(f *testing.F) {
	f.Add("a: 😀b\r\nc: é\n", 1, 3)
	f.Fuzz(func(t *testing.T, src string, line, character int) {
		text := newText(src)
		at := text.offset(position{line, character})
		if at < 0 || at > len(src) {
			t.Fatalf("byte %d of %d", at, len(src))
		}
		if again := text.offset(text.position(at)); again != at && strings.ToValidUTF8(src, "") == src {
			t.Fatalf("byte %d becomes %d", at, again)
		}
		text.locate(at)
	})
}
