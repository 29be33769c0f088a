package media

import (
	"encoding/binary"
	"fmt"
	"strings"

	mp4 "github.com/abema/go-mp4"
)

// codecs names the sample entries of cameras and phones.
var codecs = map[string]string{
	"avc1": "h264", "avc2": "h264", "avc3": "h264", "hvc1": "hevc", "hev1": "hevc", "dvh1": "hevc", "dvhe": "hevc",
	"av01": "av1", "vp08": "vp8", "vp09": "vp9", "mp4v": "mpeg4", "s263": "h263", "jpeg": "mjpeg", "mjpa": "mjpeg", "mjpb": "mjpeg",
	"apch": "prores", "apcn": "prores", "apcs": "prores", "apco": "prores", "ap4h": "prores", "ap4x": "prores",
	"mp4a": "aac", ".mp3": "mp3", "alac": "alac", "Opus": "opus", "fLaC": "flac", "ac-3": "ac3", "ec-3": "eac3", "samr": "amr_nb", "sawb": "amr_wb",
	"sowt": "pcm_s16le", "twos": "pcm_s16be", "lpcm": "pcm", "ipcm": "pcm", "in24": "pcm_s24be", "raw ": "pcm_u8",
	"tx3g": "mov_text", "text": "text", "wvtt": "webvtt", "stpp": "ttml", "c608": "eia_608", "tmcd": "timecode", "gpmd": "gpmf", "mebx": "mebx",
}

var h264Profiles = map[uint8]string{66: "Baseline", 77: "Main", 88: "Extended", 100: "High", 110: "High 10", 122: "High 4:2:2", 244: "High 4:4:4 Predictive"}
var hevcProfiles = map[uint8]string{1: "Main", 2: "Main 10", 3: "Main Still Picture", 4: "Rext"}
var aacProfiles = map[uint8]string{1: "Main", 2: "LC", 3: "SSR", 4: "LTP", 5: "HE-AAC", 29: "HE-AACv2", 42: "xHE-AAC"}
var aacRates = [...]int{96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350}

// readStsd reads the first sample entry; in practice there is no other.
func (v *movie) readStsd(stsd box, t *track) error {
	if stsd.end-stsd.body < 16 {
		return fmt.Errorf("sample descriptions at %d are cut", stsd.start)
	}
	x, err := v.header(stsd.body+8, stsd.end)
	if err != nil {
		return err
	}
	t.stream.CodecTag = cleanText(name4(x.typ))
	var taken int64
	ok := true
	switch t.handler {
	case "vide":
		var e mp4.VisualSampleEntry
		e.SetType(mp4.BoxTypeAvc1()) // all picture formats share the layout
		if taken, ok = v.decodeHead(x, &e, 78); ok {
			t.stream.Width, t.stream.Height = int(e.Width), int(e.Height)
		}
	case "soun":
		taken, ok = v.soundEntry(x, t)
	default:
		t.stream.Codec = codecName(name4(x.typ))
		return nil
	}
	t.stream.Codec = codecName(name4(x.typ))
	if !ok {
		return nil
	}
	return v.each(x.body+taken, x.end, func(y box) error { return v.configuration(y, t) })
}

func codecName(tag string) string {
	if name, ok := codecs[tag]; ok {
		return name
	}
	return strings.ToLower(cleanText(tag))
}

// decodeHead decodes the fixed part of a sample entry, whose children follow.
func (v *movie) decodeHead(x box, into mp4.IBox, size int64) (int64, bool) {
	x.end = min(x.end, x.body+size)
	return v.decode(x, into)
}

// soundEntry reads a sound description. QuickTime's versions 1 and 2 are longer, also in files
// whose brand does not say QuickTime.
func (v *movie) soundEntry(x box, t *track) (int64, bool) {
	var e mp4.AudioSampleEntry
	e.SetType(mp4.BoxTypeMp4a())
	var version [2]byte
	if err := v.full(version[:], x.body+8); err != nil {
		v.m.lost("sound description at %d is cut", x.start)
		return 0, false
	}
	size := int64(28)
	switch binary.BigEndian.Uint16(version[:]) {
	case 1:
		size += 16
	case 2:
		size += 36
	}
	if _, ok := v.decodeHead(x, &e, size); !ok {
		return 0, false
	}
	t.stream.Channels, t.stream.SampleRate = int(e.ChannelCount), int(e.SampleRate>>16)
	return size, true
}

// configuration reads one box inside a sample entry.
func (v *movie) configuration(x box, t *track) error {
	switch name4(x.typ) {
	case "avcC":
		if p, err := v.payload(x, maxLeaf); err == nil && len(p) >= 3 {
			t.stream.Profile = h264Profiles[p[1]]
			if p[1] == 66 && p[2]&0x40 != 0 {
				t.stream.Profile = "Constrained Baseline"
			}
		}
	case "hvcC":
		if p, err := v.payload(x, maxLeaf); err == nil && len(p) >= 2 {
			t.stream.Profile = hevcProfiles[p[1]&0x1f]
		}
	case "pasp":
		if p, err := v.payload(x, maxLeaf); err == nil && len(p) >= 8 {
			t.pixelH, t.pixelV = binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
		}
	case "esds":
		v.readEsds(x, t)
	case "wave": // QuickTime wraps the esds
		return v.each(x.body, x.end, func(y box) error {
			if name4(y.typ) == "esds" {
				v.readEsds(y, t)
			}
			return nil
		})
	case "sinf":
		t.stream.Encrypted = true
		return v.each(x.body, x.end, func(y box) error {
			if p, err := v.payload(y, maxLeaf); err == nil && name4(y.typ) == "frma" && len(p) >= 4 {
				t.stream.CodecTag, t.stream.Codec = cleanText(string(p[:4])), codecName(string(p[:4]))
			}
			return nil
		})
	}
	return nil
}

// readEsds takes codec, profile, sample rate and channels from the MPEG-4 descriptors
// (ISO 14496-1 §7.2.6, AudioSpecificConfig of 14496-3 §1.6).
func (v *movie) readEsds(x box, t *track) {
	var h mp4.Esds
	if _, ok := v.decode(x, &h); !ok {
		return
	}
	for _, d := range h.Descriptors {
		if c := d.DecoderConfigDescriptor; c != nil {
			switch c.ObjectTypeIndication {
			case 0x69, 0x6b:
				t.stream.Codec = "mp3"
			case 0xdd:
				t.stream.Codec = "vorbis"
			case 0xa5:
				t.stream.Codec = "ac3"
			}
		}
		if d.Tag == mp4.DecSpecificInfoTag && len(d.Data) >= 2 && t.stream.Codec == "aac" && t.handler == "soun" {
			t.audioConfig(d.Data)
		}
	}
}

func (t *track) audioConfig(p []byte) {
	word := binary.BigEndian.Uint16(p)
	object := uint8(word >> 11)
	if object == 31 {
		object = 32 + uint8(word>>5&0x3f)
		t.stream.Profile = aacProfiles[object]
		return
	}
	t.stream.Profile = aacProfiles[object]
	if i := int(word >> 7 & 0xf); i < len(aacRates) {
		t.stream.SampleRate = aacRates[i]
	}
	if c := int(word >> 3 & 0xf); c >= 1 && c <= 6 {
		t.stream.Channels = c
	} else if c == 7 {
		t.stream.Channels = 8
	}
}
