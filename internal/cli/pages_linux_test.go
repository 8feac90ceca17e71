package cli

import (
	"slices"
	"testing"
)

func TestWrittenPagesAreNotDropped(t *testing.T) {
	const smaps = `00400000-00aa1000 r-xp 00000000 fe:00 11 /opt/stoa
Rss:                4096 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00aa1000-00bb0000 r--p 006a1000 fe:00 11 /opt/stoa
Anonymous:             0 kB
00bb0000-00bc0000 r--p 007b0000 fe:00 11 /opt/stoa
Rss:                  64 kB
Anonymous:             4 kB
00bc0000-00bd0000 rw-p 007c0000 fe:00 11 /opt/stoa
Anonymous:             0 kB
7f0000000000-7f0000010000 r--p 00000000 fe:00 12 /lib/ld.so
Anonymous:             0 kB
7f0000010000-7f0000020000 r--p 00000000 00:00 0
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0xaa1000}, {0xaa1000, 0xbb0000}}
	if got := cleanMappings(smaps, "/opt/stoa"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if got := cleanMappings(smaps, "/opt"); len(got) != 0 {
		t.Errorf("of another file: %x", got)
	}
}
