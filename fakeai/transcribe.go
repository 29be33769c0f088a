package fakeai

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// Bounds of a form, and of a transcript.
const (
	maxFields   = 100
	maxField    = 64 << 10
	maxSegments = 500
)

// A recording has so many bytes a second, and a segment so many seconds.
const (
	bytesPerSecond    = 16_000
	secondsPerSegment = 5
)

// upload is a form that has been read; of its file only the hash is left.
type upload struct {
	fields map[string]string
	file   *File
}

func (s *Server) transcribe(x *exchange) error {
	form, err := readForm(x)
	if err != nil {
		return err
	}
	s.told(func() { x.asked.Form, x.asked.File = form.fields, form.file })
	switch {
	case form.file == nil:
		return invalid("file is missing")
	case form.fields["model"] == "":
		return invalid("model is missing")
	case form.file.Bytes == 0:
		return invalid("the file is empty")
	}
	return form.write(x.w)
}

func readForm(x *exchange) (*upload, error) {
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxUpload)
	in, err := x.r.MultipartReader()
	if err != nil {
		return nil, invalid("the body is not a multipart form")
	}
	form := &upload{fields: map[string]string{}}
	for range maxFields {
		part, err := in.NextPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil {
			return nil, invalid("the form ended early, or is larger than 10 GiB")
		}
		if err := form.read(part); err != nil {
			return nil, err
		}
	}
	return nil, invalid("the form has more than %d fields", maxFields)
}

func (u *upload) read(part *multipart.Part) error {
	if part.FormName() != "file" {
		raw, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err != nil || len(raw) > maxField {
			return invalid("the field %s is larger than 64 KiB, or ended early", stepwell.Head(part.FormName(), 100))
		}
		u.fields[part.FormName()] = string(raw)
		return nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, part)
	if err != nil {
		return invalid("the file ended early")
	}
	u.file = &File{Name: part.FileName(), Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}
	return nil
}

// sentences are what a transcript is made of, in an order that the file's hash gives.
var sentences = []string{
	"Welcome to the lesson.",
	"Today we look at how plants turn light into food.",
	"The leaves take in carbon dioxide from the air.",
	"Water rises from the roots to the leaves.",
	"Chlorophyll is the green colour that catches the light.",
	"The light splits water, and oxygen is set free.",
	"Sugar is made, and stored as starch.",
	"We call this photosynthesis.",
	"Let us see what happens in the dark.",
	"Remember the two stages, one with light and one without.",
	"Please write down the formula.",
	"Next time we talk about respiration.",
}

type segment struct {
	ID    int     `json:"id"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Text  string  `json:"text"`
}

// segments is the transcript: the first one names the file, the others are sentences.
func (u *upload) segments() (list []segment, seconds float64) {
	seconds = max(1, float64(u.file.Bytes/(bytesPerSecond/10))/10)
	sum, err := hex.DecodeString(u.file.SHA256)
	if err != nil {
		return nil, seconds
	}
	n := min(maxSegments, max(1, int(seconds/secondsPerSegment)))
	for i := range n {
		text := sentences[(int(sum[i%len(sum)])+i)%len(sentences)]
		if i == 0 {
			text = fmt.Sprintf("This is %s, %d bytes, %s. %s", u.file.Name, u.file.Bytes, u.file.SHA256[:8], sentences[0])
		}
		start := float64(i * secondsPerSegment)
		list = append(list, segment{i, start, min(start+secondsPerSegment, seconds), text})
	}
	return list, seconds
}

func (u *upload) write(w http.ResponseWriter) error {
	list, seconds := u.segments()
	var texts []string
	for _, s := range list {
		texts = append(texts, s.Text)
	}
	text := strings.Join(texts, " ")
	usage := map[string]any{"type": "duration", "seconds": seconds}
	switch format := u.fields["response_format"]; format {
	case "", "json":
		writeJSON(w, http.StatusOK, map[string]any{"text": text, "usage": usage})
	case "verbose_json":
		writeJSON(w, http.StatusOK, map[string]any{"task": "transcribe", "language": u.language(), "duration": seconds, "text": text, "segments": list, "usage": usage})
	case "text", "srt", "vtt":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, written(format, text, list)) // a client that has gone needs no answer
	default:
		return invalid("response_format %q is none of json, text, srt, verbose_json, vtt", stepwell.Head(format, 100))
	}
	return nil
}

func (u *upload) language() string {
	known := []string{"en", "de", "fr", "es", "ru"}
	names := []string{"english", "german", "french", "spanish", "russian"}
	if i := slices.Index(known, u.fields["language"]); i >= 0 {
		return names[i]
	}
	return names[0]
}

// written is a transcript as a text or as subtitles.
func written(format, text string, list []segment) string {
	if format == "text" {
		return text + "\n"
	}
	var b strings.Builder
	if format == "vtt" {
		b.WriteString("WEBVTT\n\n")
	}
	mark := map[string]string{"srt": ",", "vtt": "."}[format]
	at := func(seconds float64) string {
		ms := int64(seconds * 1000)
		return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, mark, ms%1000)
	}
	for i, s := range list {
		if format == "srt" {
			fmt.Fprintf(&b, "%d\n", i+1)
		}
		fmt.Fprintf(&b, "%s --> %s\n%s\n\n", at(s.Start), at(s.End), s.Text)
	}
	return b.String()
}
