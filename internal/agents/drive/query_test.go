package drive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/drive"
)

// found returns the paths of the hits of a search.
func found(t *testing.T, d *drive.Drives, query string, limit int) (paths []string) {
	t.Helper()
	hits, err := searchDrive(d, t.Context(), who, query, "", limit)
	if err != nil {
		t.Fatal(query, err)
	}
	for _, h := range hits {
		paths = append(paths, h.Path)
	}
	return paths
}

// Each query finds the files in this order, before any others.
func TestSearchFinds(t *testing.T) {
	t.Parallel()
	files := [][2]string{
		{"zh/backup.md", "夜里三点运行备份脚本上传到对象存储。"},
		{"zh/password.md", "管理员的密码可以在设置页面重置。"},
		{"zh/units.md", "仓库收到了4101台X200并且全部登\n记入库。"},
		{"de/speed.md", "Die Geschwindigkeits\u00adbegrenzung gilt nachts."},
		{"zh/refund.md", "客户可以在十四天内申请退款。"},
		{"ja/pipe.md", "名前付きパイプはプロセス間の通信に使います。"},
		{"ja/warehouse.md", "東京にある新しい倉庫は日曜日に休みます。"},
		{"th/refund.md", "ลูกค้าสามารถขอคืนเงินได้ภายในสิบสี่วัน"},
		{"th/open.md", "ร้านเปิดทุกวันยกเว้นวันอาทิตย์"},
		{"ko/library.md", "도서관은 아침 아홉 시에 문을 엽니다."},
		{"ko/refund.md", "환불을 신청할 수 있습니다."},
		{"ko/book.md", "책을 두 권 빌릴 수 있습니다."},
		{"de/save.md", "Vor der Installation werden die Daten gesichert."},
		{"de/term.md", "Die Kündigungsfrist beträgt vier Wochen."},
		{"ru/break.md", "Разрывы кабеля устраняет дежурный электрик."},
		{"ar/room.md", "في الطابق العلوي قاعتان للدراسة."},
		{"ar/loan.md", "تعار الكتب أربعة أسابيع."},
		{"code/size.go", "const maxBodySize = 1 << 20"},
		{"code/size.py", "max_body_size = 1048576"},
		{"code/body.txt", "The body has a size, and the size of a body has a max."},
		{"log/ora.txt", "ORA-00942: table or view does not exist"},
		{"log/other.txt", "ORA-01017 occurred 00942 times"},
		{"rel/new.md", "Release v1.2.3 mends the clock."},
		{"rel/old.md", "Release v3.2.1 breaks the clock; 1 of 2 in v2 and v1."},
		{"en/mail.txt", "Write an e-mail to the office."},
		{"ja/summer.md", "夏の夕方は長くなる。"},
		{"ar/copy.md", "النسخة المتوفّرة قديمة."},
		{"de/greet.md", "Viele Grüße aus dem Norden."},
		{"de/cologne.md", "Der Zug nach Koeln ist voll."},
	}
	for i := range 20 {
		files = append(files, [2]string{fmt.Sprintf("fill/%02d.txt", i), fmt.Sprintf("The day %d of the year is a day of the week as any other.", i)})
	}
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, f := range files {
			put(t, d, f[0], f[1])
		}
		for query, want := range map[string][]string{
			"备份上传": {"zh/backup.md"},
			`"收到了4101台X200并且全部登记入库"`: {"zh/units.md"},
			"登记入库":                               {"zh/units.md"},
			"geschwindigkeitsbegrenzung":         {"de/speed.md"},
			"管理员密码":                              {"zh/password.md"},
			"如何重置管理员密码":                          {"zh/password.md"},
			"名前付きパイプとは何ですか":                      {"ja/pipe.md"},
			"東京の倉庫":                              {"ja/warehouse.md"},
			"ขอคืนเงินอย่างไร":                   {"th/refund.md"},
			"도서관":                                {"ko/library.md"},
			"도서관에서":                              {"ko/library.md"},
			"환불":                                 {"ko/refund.md"},
			"책":                                  {"ko/book.md"},
			"Daten vor der Installation sichern": {"de/save.md"},
			"Kündigungsfristen":                  {"de/term.md"},
			"دراسة":                              {"ar/room.md"},
			"والكتب":                             {"ar/loan.md"},
			"разрывов":                           {"ru/break.md"},
			"maxBodySize":                        {"code/size.go", "code/size.py"},
			"max_body_size":                      {"code/size.py", "code/size.go"},
			"ORA-00942":                          {"log/ora.txt"},
			"v1.2.3":                             {"rel/new.md"},
			"長い":                                 {"ja/summer.md"},
			"المتوفرة":                           {"ar/copy.md"},
			"Gruesse":                            {"de/greet.md"},
			"Köln":                               {"de/cologne.md"},
			"email":                              nil, // "e-mail" is two words of the index
			"e-mail":                             {"en/mail.txt"},
			"what is the release of the clock":   {"rel/new.md", "rel/old.md"},
		} {
			if got := found(t, d, query, 5); len(got) < len(want) || !sameSet(got[:len(want)], want) {
				t.Errorf("%q finds %q, want first %q", query, got, want)
			}
		}
		if got := found(t, d, "max body size", 5); !slices.Contains(got, "code/size.go") || got[0] == "code/size.go" {
			t.Errorf("three words find %q", got)
		}
		for _, query := range []string{`"备份上传"`, `"ORA 01017 00942"`, `"v1.2.3 breaks"`} {
			if got := found(t, d, query, 5); len(got) != 0 {
				t.Errorf("%s is not literal: %q", query, got)
			}
		}
		for _, query := range []string{"v1.2.3", "ORA-00942"} {
			if got := found(t, d, query, 5); len(got) != 1 {
				t.Errorf("%s is taken apart: %q", query, got)
			}
		}
	})
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// A passage with all words comes first, and does not hide those with some.
func TestPassagesWithSomeWordsFollow(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "some.txt", "lantern lantern lantern")
		put(t, d, "all.txt", "The lantern is far from the "+strings.Repeat("long way to the ", 40)+"harbour.")
		put(t, d, "none.txt", "oil and glass")
		hits, err := searchDrive(d, t.Context(), who, "lantern harbour", "", 10)
		if err != nil || len(hits) != 2 || hits[0].Path != "all.txt" || hits[1].Path != "some.txt" || hits[1].Score > hits[0].Score {
			t.Errorf("%q, %v", places(hits), err)
		}
	})
}

// What a question is about counts more than the words that any question has.
func TestFunctionWordsCountLess(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for i := range 20 {
			put(t, d, fmt.Sprintf("fill/%02d.txt", i), fmt.Sprintf("lantern oil wick glass %d", i))
		}
		for _, f := range [][2]string{
			{"en/answer.txt", "Broken lantern: send it back."},
			{"en/words.txt", "What do I do when it does not do what I want?"},
			{"de/answer.txt", "Kaputte Laterne zurückschicken."},
			{"de/words.txt", "Was kann ich tun, wenn die anderen nicht mit mir wollen?"},
			{"ru/answer.txt", "Сломанный фонарь: вернуть."},
			{"ru/words.txt", "Что мне с ним нужно было и почему его нет?"},
			{"en/crimes.txt", "The war was long."},
		} {
			put(t, d, f[0], f[1])
		}
		for query, want := range map[string]string{
			"What do I do when my lantern is broken?":          "en/answer.txt",
			"Was kann ich tun, wenn meine Laterne kaputt ist?": "de/answer.txt",
			"что мне нужно с ним делать, если фонарь сломан":   "ru/answer.txt",
			"a about after all also am an and any are as at be been but by can could did do does for from had has have he her here him his how if in into is it of glass lanterns": "fill/00.txt",
			"what to do with it": "en/words.txt",
			"war glass":          "en/crimes.txt", // not German
		} {
			if got := found(t, d, query, 5); len(got) == 0 || got[0] != want {
				t.Errorf("%q finds %q, want first %q", query, got, want)
			}
		}
	})
}

func TestOtherDrivesChangeNoScore(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		for _, f := range alikeFiles() {
			put(t, d, f[0], f[1])
		}
		search := func() (out []string) {
			for _, q := range alikeQueries {
				hits, err := searchDrive(d, t.Context(), who, q, "", 20)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, q+": "+strings.Join(places(hits), ", "))
			}
			return out
		}
		before := search()
		var ops []drive.Op
		for i := range 300 {
			text := strings.Repeat("refund warehouse lighthouse 退款 storm of harbour words "+fmt.Sprint(i)+" ", 1+i%30)
			ops = append(ops, drive.Op{Verb: drive.VerbPut, Path: path(t, fmt.Sprintf("f%d.txt", i)), Content: drive.BytesContent([]byte(text))})
		}
		if _, err := d.Apply(t.Context(), drive.Owner{AccountID: "acc_2", AgentID: "agt_9"}, drive.Claim{}, ops); err != nil {
			t.Fatal(err)
		}
		for i, after := range search() {
			if after != before[i] {
				t.Errorf("%s\nbecame\n%s", before[i], after)
			}
		}
	})
}

// Words with more passages than are looked up are found below a prefix, too.
func TestFrequentWordsBelowAPrefix(t *testing.T) {
	t.Parallel()
	each(t, drive.Limits{}, func(t *testing.T, d *drive.Drives) {
		put(t, d, "old/lamp.txt", "the keeper lights the lamp")
		put(t, d, "new/many.txt", strings.Repeat(strings.Repeat("the keeper ", 46)+"\n\n", 5100))
		put(t, d, "new/last.txt", "the keeper sleeps")
		put(t, d, "old/rare.txt", "the last boat of the keeper")
		for query, want := range map[string][]string{
			"the": {"old/lamp.txt", "old/rare.txt"}, "the keeper": {"old/lamp.txt", "old/rare.txt"},
			"boat keeper": {"old/rare.txt", "old/lamp.txt"}, "sleeps": nil,
		} {
			hits, err := searchDrive(d, t.Context(), who, query, "old/", 5)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range hits {
				got = append(got, h.Path)
			}
			if !sameSet(got, want) || len(want) > 0 && query == "boat keeper" && got[0] != want[0] {
				t.Errorf("%q finds %q, want %q", query, got, want)
			}
		}
	})
}
