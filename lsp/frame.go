package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits of what a client sends.
const (
	maxHeader  = 4 << 10  // bytes of all header lines of a message
	maxMessage = 64 << 20 // bytes of a message: a document of the most that is parsed, escaped
)

// errFrame is a message whose end cannot be found: nothing behind it can be read.
var errFrame = errors.New("the input is no language server protocol")

// readMessage reads the next message: header lines, an empty line, and as many bytes as Content-Length says. It is io.EOF at the end of
// the input between two messages.
func readMessage(r *bufio.Reader) ([]byte, error) {
	length, read := -1, 0
	for {
		line, err := r.ReadSlice('\n') // at most the reader's buffer
		if err != nil {
			if errors.Is(err, io.EOF) && read+len(line) == 0 {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("%w: a header line is not complete: %w", errFrame, err)
		}
		if read += len(line); read > maxHeader {
			return nil, fmt.Errorf("%w: the header has more than %d bytes", errFrame, maxHeader)
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, found := strings.Cut(text, ":")
		if !found {
			return nil, fmt.Errorf("%w: %.40q is no header line", errFrame, text)
		}
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err != nil || n > maxMessage {
			return nil, fmt.Errorf("%w: Content-Length is %.40q, the limit is %d bytes", errFrame, value, maxMessage)
		}
		length = int(n)
	}
	if length < 0 {
		return nil, fmt.Errorf("%w: the header has no Content-Length", errFrame)
	}
	return readBody(r, length)
}

// readBody takes memory as bytes come in, not as the header promises them.
func readBody(r io.Reader, length int) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, int64(length)))
	if err == nil && len(body) < length {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a message is cut off: %w", errFrame, err)
	}
	return body, nil
}

func writeMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...))
	return err
}

// message is a request (with id), a notification (without), or an answer of the client, which has no method.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Codes of JSON-RPC and of the protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeNotReady       = -32002
	codeFailed         = -32803 // the request is right, and cannot be done: the message says why
)

// failure is the error of an answer.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f *failure) Error() string { return f.Message }

func refuse(format string, args ...any) error {
	return &failure{codeFailed, fmt.Sprintf(format, args...)}
}

// answer is a response; a result that is nil is written as null.
type answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type errorAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   *failure        `json:"error"`
}

type notification struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}
