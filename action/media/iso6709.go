package media

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

var iso6709 = regexp.MustCompile(`^([+-])([\d.]+)([+-])([\d.]+)(?:([+-][\d.]+))?(?:CRS.*)?$`)

// parseISO6709 reads a point in the string form of ISO 6709 annex H: latitude and longitude as
// ±DD.D, ±DDMM.M or ±DDMMSS.S (one digit more for longitude), an optional altitude in metres, an
// optional CRS and the closing slash, which cameras sometimes leave out.
func parseISO6709(s string) (g GPS, ok bool) {
	m := iso6709.FindStringSubmatch(strings.TrimSuffix(strings.TrimSpace(s), "/"))
	if m == nil {
		return GPS{}, false
	}
	lat, ok1 := sexagesimal(m[1], m[2], 2)
	lon, ok2 := sexagesimal(m[3], m[4], 3)
	if !ok1 || !ok2 || !validPosition(lat, lon) {
		return GPS{}, false
	}
	g = GPS{Lat: lat, Lon: lon}
	if m[5] != "" {
		alt, err := strconv.ParseFloat(m[5], 64)
		if err != nil {
			return GPS{}, false
		}
		g.Alt = &alt
	}
	return g, true
}

// sexagesimal reads degrees, which have that many digits, and minutes and seconds of two, where they are given; the
// last of them may have a fraction.
func sexagesimal(sign, text string, digits int) (v float64, ok bool) {
	whole, _, _ := strings.Cut(text, ".")
	unit := 1.0
	for at := 0; at < len(whole); unit, digits = unit*60, 2 {
		if len(whole) < at+digits {
			return 0, false
		}
		part := text[at:]
		if len(whole) > at+digits {
			part = text[at : at+digits]
		}
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || unit > 3600 || unit > 1 && n >= 60 {
			return 0, false
		}
		v, at = v+n/unit, at+digits
	}
	if sign == "-" && v != 0 {
		v = -v
	}
	return v, whole != ""
}

func validPosition(lat, lon float64) bool {
	return math.Abs(lat) <= 90 && math.Abs(lon) <= 180 // false for NaN, too
}
