package media

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// The files of the tests, built byte by byte.

func u16(v ...uint16) []byte {
	var b []byte
	for _, x := range v {
		b = binary.BigEndian.AppendUint16(b, x)
	}
	return b
}

func u32(v ...uint32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func bx(typ string, parts ...[]byte) []byte {
	body := cat(parts...)
	return cat(u32(uint32(8+len(body))), []byte(typ), body)
}

type sampleTrack struct {
	handler, codec string
	timescale      uint32
	deltas         []uint32 // pairs: count, delta
	matrix         [4]int32 // a b c d in whole units
	width, height  uint16
	extra          []byte // children of the sample entry
	elst           uint32 // edited duration in ms, 0: none
	chunk          uint32 // offset of the media
}

func matrixBytes(m [4]int32) []byte {
	if m == ([4]int32{}) {
		m = [4]int32{1, 0, 0, 1}
	}
	f := func(v int32) uint32 { return uint32(v << 16) }
	return u32(f(m[0]), f(m[1]), 0, f(m[2]), f(m[3]), 0, 0, 0, 1<<30)
}

func (t sampleTrack) box(id uint32) []byte {
	var samples, ticks, rows uint32
	var stts []byte
	for i := 0; i < len(t.deltas); i += 2 {
		samples += t.deltas[i]
		ticks += t.deltas[i] * t.deltas[i+1]
		stts = append(stts, u32(t.deltas[i], t.deltas[i+1])...)
		rows++
	}
	var entry []byte
	switch t.handler {
	case "vide":
		entry = bx(t.codec, make([]byte, 6), u16(1), make([]byte, 16), u16(t.width, t.height), u32(72<<16, 72<<16, 0), u16(1), make([]byte, 32), u16(24, 0xffff), t.extra)
	case "soun":
		entry = bx(t.codec, make([]byte, 6), u16(1), make([]byte, 8), u16(2, 16, 0, 0), u32(48000<<16), t.extra)
	default:
		entry = bx(t.codec, make([]byte, 6), u16(1))
	}
	var edts []byte
	if t.elst > 0 {
		edts = bx("edts", bx("elst", u32(0, 1, t.elst, 0, 1<<16)))
	}
	return bx("trak",
		bx("tkhd", u32(7, 0, 0, id, 0, 0, 0, 0), u16(0, 0, 0, 0), matrixBytes(t.matrix), u32(uint32(t.width)<<16, uint32(t.height)<<16)),
		edts,
		bx("mdia",
			bx("mdhd", u32(0, 0, 0, t.timescale, ticks), u16(0x15c7, 0)), // eng
			bx("hdlr", u32(0, 0), []byte(t.handler), make([]byte, 13)),
			bx("minf", bx("stbl",
				bx("stsd", u32(0, 1), entry),
				bx("stts", u32(0, rows), stts),
				bx("stsz", u32(0, 1, samples)),
				bx("stco", u32(0, 1, t.chunk))))))
}

type sampleMovie struct {
	brand    string
	created  uint32 // since 1904
	duration uint32 // ms
	tracks   []sampleTrack
	user     []byte // children of moov
	atEnd    bool   // moov after mdat
	media    int
}

func (m sampleMovie) bytes() []byte {
	moov := [][]byte{bx("mvhd", u32(0, m.created, m.created, 1000, m.duration, 1<<16), u16(256, 0), u32(0, 0), matrixBytes([4]int32{}), make([]byte, 24), u32(9))}
	for i, t := range m.tracks {
		moov = append(moov, t.box(uint32(i+1)))
	}
	header, media := bx("moov", cat(moov...), m.user), bx("mdat", bytes.Repeat([]byte{7}, m.media))
	ftyp := bx("ftyp", []byte(m.brand), u32(512), []byte(m.brand))
	if m.atEnd {
		return cat(ftyp, media, header)
	}
	return cat(ftyp, header, media)
}

func video(codec string) sampleTrack {
	return sampleTrack{handler: "vide", codec: codec, timescale: 30000, deltas: []uint32{299, 1001, 1, 500}, width: 1920, height: 1080,
		extra: bx("avcC", []byte{1, 100, 0, 40})}
}

func sound() sampleTrack {
	return sampleTrack{handler: "soun", codec: "mp4a", timescale: 48000, deltas: []uint32{470, 1024},
		extra: bx("esds", u32(0), []byte{3, 22, 0, 1, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, 0x11, 0x90})}
}

// keyed is QuickTime metadata of one key.
func keyed(fullBox bool, key, value string) []byte {
	var version []byte
	if fullBox {
		version = u32(0)
	}
	return bx("meta", version, bx("hdlr", u32(0, 0), []byte("mdta"), make([]byte, 13)),
		bx("keys", u32(0, 1), bx("mdta", []byte(key))),
		bx("ilst", bx("\x00\x00\x00\x01", bx("data", u32(1, 0), []byte(value)))))
}

// exifTag is one entry of an EXIF directory; big endian.
type exifTag struct {
	id, typ uint16
	count   uint32
	value   []byte
}

func ascii(id uint16, s string) exifTag {
	return exifTag{id, 2, uint32(len(s) + 1), append([]byte(s), 0)}
}

func rationals(id uint16, v ...uint32) exifTag { return exifTag{id, 5, uint32(len(v) / 2), u32(v...)} }

func short(id, v uint16) exifTag { return exifTag{id, 3, 1, u16(v)} }

// directory writes an IFD that begins at the offset, its values behind it.
func directory(at uint32, tags []exifTag) []byte {
	values := at + 2 + 12*uint32(len(tags)) + 4
	dir, data := u16(uint16(len(tags))), []byte(nil)
	for _, t := range tags {
		dir = append(dir, cat(u16(t.id, t.typ), u32(t.count))...)
		if len(t.value) <= 4 {
			dir = append(dir, append(bytes.Clone(t.value), make([]byte, 4-len(t.value))...)...)
			continue
		}
		dir = append(dir, u32(values+uint32(len(data)))...)
		data = append(data, t.value...)
		if len(data)%2 == 1 {
			data = append(data, 0)
		}
	}
	return cat(dir, u32(0), data)
}

// tiffBlock is an EXIF block with a main, a photo and a GPS directory.
func tiffBlock(main, photo, gps []exifTag) []byte {
	link := func(id uint16, at int) exifTag { return exifTag{id, 4, 1, u32(uint32(at))} }
	size := len(directory(8, append(bytes2tags(main), link(0x8769, 0), link(0x8825, 0))))
	p := directory(uint32(8+size), photo)
	g := directory(uint32(8+size+len(p)), gps)
	m := directory(8, append(bytes2tags(main), link(0x8769, 8+size), link(0x8825, 8+size+len(p))))
	return cat([]byte("MM\x00*"), u32(8), m, p, g)
}

func bytes2tags(t []exifTag) []exifTag { return append([]exifTag(nil), t...) }

// jpegWith is a picture of the given size with an EXIF block (or none), whose coded data means nothing.
func jpegWith(w, h uint16, block []byte) []byte {
	segment := func(marker byte, body ...[]byte) []byte {
		b := cat(body...)
		return cat([]byte{0xff, marker}, u16(uint16(len(b)+2)), b)
	}
	var app1 []byte
	if block != nil {
		app1 = segment(0xe1, []byte("Exif\x00\x00"), block)
	}
	return cat([]byte{0xff, 0xd8}, app1, segment(0xdb, make([]byte, 65)), segment(0xc0, []byte{8}, u16(h, w), []byte{1, 1, 0x11, 0}),
		segment(0xda, []byte{1, 1, 0, 0, 63, 0}), []byte{1, 2, 0xff, 0, 3, 0xff, 0xd0, 4}, []byte{0xff, 0xd9})
}

func pngOf(w, h uint32) []byte {
	chunk := func(typ string, body []byte) []byte {
		b := cat([]byte(typ), body)
		return cat(u32(uint32(len(body))), b, u32(crc32.ChecksumIEEE(b)))
	}
	return cat([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", cat(u32(w, h), []byte{8, 2, 0, 0, 0})), chunk("IEND", nil))
}

// samples are one file of each kind, small and whole.
func samples() map[string][]byte {
	photo := tiffBlock([]exifTag{ascii(0x10f, "ACME"), ascii(0x110, "ACME One"), short(0x112, 6)},
		[]exifTag{ascii(0x9003, "2026:03:14 09:26:53"), ascii(0x9011, "+01:00")},
		[]exifTag{ascii(1, "S"), rationals(2, 33, 1, 51, 1, 2448, 100), ascii(3, "W"), rationals(4, 70, 1, 40, 1, 0, 1), {5, 1, 1, []byte{1}}, rationals(6, 85, 10)})
	frag := cat(bx("ftyp", []byte("iso5"), u32(0)),
		sampleFragmented(), bx("mdat", make([]byte, 20)))
	return map[string][]byte{
		"clip.mp4":  sampleMovie{brand: "isom", created: 3869630813, duration: 10032, tracks: []sampleTrack{video("avc1"), sound()}, media: 100}.bytes(),
		"end.mov":   sampleMovie{brand: "qt  ", duration: 9976, tracks: []sampleTrack{video("avc1")}, atEnd: true, media: 100, user: keyed(false, qt+"creationdate", "2019-07-01T18:30:00+0200")}.bytes(),
		"frag.mp4":  frag,
		"voice.m4a": sampleMovie{brand: "M4A ", duration: 10026, tracks: []sampleTrack{sound()}, media: 100}.bytes(),
		"photo.jpg": jpegWith(40, 30, photo),
		"plain.jpg": jpegWith(8, 8, nil),
		"shot.png":  pngOf(64, 48),
		"scan.tif":  tiffBlock([]exifTag{short(0x100, 64), short(0x101, 48), ascii(0x10f, "ACME")}, nil, nil),
		"web.webp":  cat([]byte("RIFF"), []byte{22, 0, 0, 0}, []byte("WEBPVP8X"), []byte{10, 0, 0, 0, 0, 0, 0, 0, 63, 0, 0, 47, 0, 0}),
		"phone.heic": cat(bx("ftyp", []byte("heic"), u32(0), []byte("mif1heic")), bx("meta", u32(0), bx("hdlr", u32(0, 0), []byte("pict"), make([]byte, 13)),
			bx("pitm", u32(0), u16(1)), bx("iprp", bx("ipco", bx("ispe", u32(0, 64, 48))), bx("ipma", u32(0, 1), u16(1), []byte{1, 1})))),
	}
}

func sampleFragmented() []byte {
	m := sampleMovie{brand: "iso5", tracks: []sampleTrack{{handler: "vide", codec: "hvc1", timescale: 1000, width: 64, height: 48}},
		user: bx("mvex", bx("trex", u32(0, 1, 1, 40, 0, 0)))}.bytes()
	moov := m[20 : len(m)-8] // without ftyp and the empty mdat
	moof := func(base, samples uint32) []byte {
		return bx("moof", bx("mfhd", u32(0, 1)), bx("traf", bx("tfhd", u32(0x20000, 1)), bx("tfdt", u32(0, base)), bx("trun", u32(0, samples))))
	}
	own := bx("moof", bx("mfhd", u32(0, 2)), bx("traf", bx("tfhd", u32(0x20000, 1)), bx("tfdt", u32(0, 2000)), bx("trun", u32(0x101, 2, 0, 30, 70))))
	return cat(moov, moof(0, 25), moof(1000, 25), own)
}
