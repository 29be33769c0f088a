package media

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"

	"github.com/bep/imagemeta"

	"github.com/stepwell/stepwell"
)

type readerKind int

const (
	readNothing readerKind = iota
	readMovie
	readJPEG
	readImage
)

type sniffed struct {
	format, mime, kind, brand string
	reader                    readerKind
	image                     imagemeta.ImageFormat
}

// magic are formats known by fixed bytes. Those without a reader are recognised, so that the
// answer is "not read" and not "unknown".
var magic = []struct {
	at  int
	sig string
	s   sniffed
}{
	{0, "\xff\xd8", sniffed{format: "jpeg", mime: "image/jpeg", kind: "image", reader: readJPEG, image: imagemeta.JPEG}},
	{0, "\x89PNG\r\n\x1a\n", sniffed{format: "png", mime: "image/png", kind: "image", reader: readImage, image: imagemeta.PNG}},
	{0, "II*\x00", sniffed{format: "tiff", mime: "image/tiff", kind: "image", reader: readImage, image: imagemeta.TIFF}},
	{0, "MM\x00*", sniffed{format: "tiff", mime: "image/tiff", kind: "image", reader: readImage, image: imagemeta.TIFF}},
	{8, "WEBP", sniffed{format: "webp", mime: "image/webp", kind: "image", reader: readImage, image: imagemeta.WebP}},
	{0, "GIF8", sniffed{format: "gif", mime: "image/gif", kind: "image"}},
	{0, "BM", sniffed{format: "bmp", mime: "image/bmp", kind: "image"}},
	{8, "AVI ", sniffed{format: "avi", mime: "video/x-msvideo", kind: "video"}},
	{8, "WAVE", sniffed{format: "wav", mime: "audio/wav", kind: "audio"}},
	{0, "\x1aE\xdf\xa3", sniffed{format: "matroska", mime: "video/x-matroska", kind: "video"}},
	{0, "ID3", sniffed{format: "mp3", mime: "audio/mpeg", kind: "audio"}},
	{0, "fLaC", sniffed{format: "flac", mime: "audio/flac", kind: "audio"}},
	{0, "OggS", sniffed{format: "ogg", mime: "audio/ogg", kind: "audio"}},
	{0, "\x00\x00\x01\xba", sniffed{format: "mpeg", mime: "video/mpeg", kind: "video"}},
	{0, "0&\xb2u\x8ef\xcf\x11", sniffed{format: "asf", mime: "video/x-ms-asf", kind: "video"}},
	{0, "\x06\x0e+4\x02\x05\x01\x01", sniffed{format: "mxf", mime: "application/mxf", kind: "video"}},
}

// sniff recognises a file by its first bytes, regardless of its name. An empty format: unknown.
func sniff(head []byte) sniffed {
	has := func(at int, sig string) bool {
		return len(head) >= at+len(sig) && string(head[at:at+len(sig)]) == sig
	}
	if len(head) >= 8 {
		switch string(head[4:8]) {
		case "ftyp":
			return sniffBrand(head)
		case "moov", "mdat", "wide", "free", "skip", "pnot":
			return sniffed{format: "mov", mime: "video/quicktime", kind: "video", reader: readMovie}
		case "styp", "moof", "sidx":
			return sniffed{format: "mp4", mime: "video/mp4", kind: "video", reader: readMovie}
		}
	}
	for _, m := range magic {
		if has(m.at, m.sig) && (m.at != 8 || has(0, "RIFF")) {
			if m.s.format == "matroska" && docType(head) == "webm" {
				return sniffed{format: "webm", mime: "video/webm", kind: "video"}
			}
			return m.s
		}
	}
	switch {
	case has(0, "G") && has(188, "G"), has(4, "G") && has(196, "G"):
		return sniffed{format: "mpegts", mime: "video/mp2t", kind: "video"}
	case len(head) >= 4 && head[0] == 0xff && head[1]&0xe6 == 0xe2 && head[2]>>4 != 0xf && head[2]&0x0c != 0x0c:
		return sniffed{format: "mp3", mime: "audio/mpeg", kind: "audio"}
	}
	return sniffed{}
}

// docType is the kind of an EBML file (RFC 8794 §11.2.4), "" where its header has none.
func docType(head []byte) string {
	head = head[:min(len(head), 64)]
	at := bytes.Index(head, []byte{0x42, 0x82})
	if at < 0 || at+3 > len(head) {
		return ""
	}
	name := head[at+3:]
	return string(bytes.TrimRight(name[:min(len(name), int(head[at+2]&0x7f))], "\x00"))
}

// sniffBrand distinguishes the relatives of ISO 14496-12 by the major brand of ftyp.
func sniffBrand(head []byte) sniffed {
	brand := ""
	if len(head) >= 12 {
		brand = string(head[8:12])
	}
	s := sniffed{format: "mp4", mime: "video/mp4", kind: "video", reader: readMovie, brand: cleanText(brand)}
	switch brand {
	case "qt  ":
		s.format, s.mime = "mov", "video/quicktime"
	case "M4A ", "M4B ", "M4P ":
		s.format, s.mime, s.kind = "m4a", "audio/mp4", "audio"
	case "M4V ", "M4VH", "M4VP":
		s.mime = "video/x-m4v"
	case "heic", "heix", "heim", "heis", "mif1", "msf1", "hevc", "hevx":
		s.format, s.mime, s.kind, s.reader, s.image = "heif", "image/heic", "image", readImage, imagemeta.HEIF
	case "avif", "avis":
		s.format, s.mime, s.kind, s.reader, s.image = "avif", "image/avif", "image", readImage, imagemeta.AVIF
	case "crx ":
		s.format, s.mime, s.kind, s.reader = "cr3", "image/x-canon-cr3", "image", readNothing
	default:
		if strings.HasPrefix(brand, "3gp") || strings.HasPrefix(brand, "3g2") {
			s.format, s.mime = "3gp", "video/3gpp"
		}
	}
	if s.reader == readImage && len(head) >= 16 { // mif1 says only "some HEIF"; the compatible brands say which
		n := min(int(binary.BigEndian.Uint32(head)), len(head))
		if n > 16 && bytes.Contains(head[16:n], []byte("avif")) {
			s.format, s.mime, s.image = "avif", "image/avif", imagemeta.AVIF
		}
	}
	return s
}

// cleanText makes text of a file fit for outputs: valid UTF-8, no control characters, no padding,
// at most 1,000 bytes.
func cleanText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(stepwell.Head(s, 1000))
}
