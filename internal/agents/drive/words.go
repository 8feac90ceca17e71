package drive

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWord is the maximum length of an indexed word in bytes. Longer ones are truncated in texts and
// in queries alike, so that they still match.
const maxWord = 64

// A word is one word of a text in its indexed form.
type word struct {
	text       string // folded: letters, digits and marks only
	start, end int    // bytes in the text
	first      bool   // a single character of a script without spaces, which is also the beginning of pairs
}

// eachWord splits a text into words and calls fn with each until it returns false. Words are
// runs of letters and digits. Text in scripts without spaces (such as Han, kana, Thai)
// becomes overlapping pairs of characters, and the last character alone, so that any part of
// it can be found. A pair also spans a line end, because documents wrap their lines within words.
// One tokenizer serves both databases, for texts and for queries, since those of FTS5 and
// tsvector differ and neither finds a part of a Chinese sentence.
func eachWord(text string, fn func(word) bool) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case dense(r):
			end := i
			for end < len(text) {
				if n := denseLen(text[end:]); n > 0 {
					end += n
					continue
				}
				break
			}
			if !eachPair(text, i, end, fn) {
				return
			}
			i = end
		case inWord(r):
			end, ascii := i, true
			for end < len(text) {
				r, n := utf8.DecodeRuneInString(text[end:])
				if !inWord(r) || dense(r) {
					// "don't" is one word, and so are "l’été" and a word with a soft hyphen.
					if (r == '\'' || r == '’' || r == '\u00ad') && end > i && joins(text[end+n:]) {
						ascii = ascii && r == '\''
						end += n
						continue
					}
					break
				}
				ascii = ascii && r < utf8.RuneSelf
				end += n
			}
			if w := fold(text[i:end], ascii); w != "" && !fn(word{text: w, start: i, end: end}) {
				return
			}
			i = end
		default:
			i += n
		}
	}
}

func joins(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return unicode.IsLetter(r) && !dense(r)
}

// denseLen returns the length of the first character of a text, with a line end before it; 0 if its
// script separates words.
func denseLen(text string) int {
	rest, windows := strings.CutPrefix(text, "\r\n")
	if !windows {
		rest = strings.TrimPrefix(text, "\n")
	}
	if r, n := utf8.DecodeRuneInString(rest); dense(r) {
		return len(text) - len(rest) + n
	}
	return 0
}

// eachPair calls fn for the overlapping pairs of characters in text[i:end], which is in a script
// without spaces.
func eachPair(text string, i, end int, fn func(word) bool) bool {
	for i < end {
		i += len(text[i:]) - len(strings.TrimLeft(text[i:], "\r\n"))
		_, n := utf8.DecodeRuneInString(text[i:])
		stop := i + n
		single := stop == end
		if !single {
			stop += denseLen(text[stop:])
		}
		if w := fold(text[i:stop], false); w != "" && !fn(word{text: w, start: i, end: stop, first: single}) {
			return false
		}
		i += n
	}
	return true
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// dense reports whether a character belongs to a script that does not separate words by spaces.
func dense(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
		r == 'ー' || r == '々'
}

// fold returns the indexed form of a word: lower case, without the accents of
// Latin, Greek and Cyrillic letters and the vowel marks of Arabic ones, in NFKC, and without
// the s of an English plural.
func fold(w string, ascii bool) string {
	if ascii {
		w = singular(strings.ReplaceAll(strings.ToLower(w), "'", ""))
		return w[:min(len(w), maxWord)]
	}
	w = strings.ToLower(norm.NFKD.String(strings.ToLower(w)))
	w = strings.Map(func(r rune) rune {
		if 0x0300 <= r && r <= 0x036f || 0x064b <= r && r <= 0x0652 || r == 0x0670 || r == 0x0640 || !inWord(r) && r != 'ー' {
			return -1
		}
		return r
	}, strings.ReplaceAll(w, "ß", "ss"))
	w = norm.NFKC.String(w)
	if len(w) > maxWord {
		cut := maxWord
		for !utf8.RuneStart(w[cut]) {
			cut--
		}
		w = w[:cut]
	}
	if isASCII(w) {
		w = singular(w)
	}
	return w
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// singular removes the plural ending of an English word. It is cautious: it may fail to unify
// two forms of a word, but rarely merges two words.
func singular(w string) string {
	n := len(w)
	if n < 4 || w[n-1] != 's' {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "ies") && n > 4:
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "sses"):
		return w[:n-2]
	}
	return w[:n-1]
}

// functionWords lists, for some languages, words that any question contains: articles, pronouns,
// prepositions, conjunctions, auxiliary verbs, question words. They count less, because some of
// them are rare in texts and would outweigh the subject of the question.
var functionWords = [...]string{
	`a about after all also am an and any are as at be because been before being between both but by can could did do does
	doing down during each few for from further had has have having he her here him his how i if in into is it its just me
	more most my no nor not now of off on once only or other our out over own please same she should so some such than that
	the their them then there these they this those through to too under until up very was we were what when where which
	while who whom whose why will with without would you your`,
	`aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bitte da damit dann das dass
	dein dem den denn der des dessen die dies diese diesem diesen dieser dieses doch dort durch ein eine einem einen einer
	eines er es etwas euch für gegen gibt habe haben hat hatte hier hinter ich ihm ihn ihnen ihr ihre im in ins ist ja jede
	jedem jeden jeder jedes jetzt kann kannst machen macht kein keine keinem keinen keiner können man mehr mein meine meinem meinen meiner
	mich mir mit muss müssen nach nicht nichts noch nun nur ob oder ohne sehr sein seine sich sie sind so soll sollte sondern tun
	tut über um und uns unser unter vom von vor wann war waren warum was weil welche welchem welchen welcher welches wenn wer werden
	wie wieder wieso will wir wird wo woher wohin wollen wurde würde zu zum zur zwischen`,
	`à ai alors après as au aucun aussi autre aux avant avec avoir ça car ce cela ces cet cette ceux chaque chez comme comment
	dans de depuis des donc dont du elle elles en encore entre es est et étaient était être eu faire fait faut ici il ils je
	jusque la là le les leur leurs lors lorsque lui ma mais me même mes moi mon ne ni nos notre nous on ont ou où par parce pas
	pendant peut peuvent peux plus pour pourquoi puis puisque quand que quel quelle quelles quels qui quoi sa sans se sera ses
	si soit son sont sous suis sur ta te tes toi ton tous tout toute toutes très trop tu un une vers vos votre vous y c d j l
	m n qu s t c'est d'un d'une j'ai n'a n'est qu'un qu'une qu'est qu'il s'est`,
	`a al algo algún alguna algunas algunos ante antes aquel aquella aquí así aún aunque bajo cada como cómo con contra cual cuál
	cuales cuáles cualquier cuando cuándo cuánta cuántas cuánto cuántos de del desde donde dónde dos durante e el él ella ellas
	ellos en entre era es esa esas ese eso esos esta está están estas este esto estos fue ha hace hacer hacia han hasta hay he
	la las le les lo los más me mi mientras mis mucho muy nada ni no nos nosotros o os otra otras otro otros para pero poco por
	porque pueda puede pueden puedo pues que qué quien quién quiero se sea ser si sí sin sobre solo sólo son soy su sus también
	tan tanto te tener tengo ti tiene tienen todo todos tu tus un una unas uno unos usted y ya yo`,
	`a abbiamo ad agli ai al alla alle allo anche ancora avere che chi ci come con cosa così cui da dagli dai dal dalla dalle
	dallo degli dei del della delle dello di dopo dove due e è essere fare fra già gli ha hanno ho i il in io l la le lei lo
	loro lui ma mentre mi mia mie mio molto ne negli nei nel nella nelle nello noi non nostro o ogni per perché più può posso
	prima quale quali quando quanta quanti quanto quella quelle quelli quello questa queste questi questo qui se senza si sia
	sono su sua sugli sui sul sulla sulle sullo suo tra tutti tutto un una uno voi`,
	`a à ao aos aquela aquele aqui as às até cada com como da das de dela dele depois do dos e é ela elas ele eles em entre era
	essa esse esta está estão este eu faz fazer foi há isso isto já lhe mais mas me mesmo meu minha muito na não nas nem no nos
	nós nossa nosso num numa o onde os ou para pela pelas pelo pelos pode podem por porque posso quais qual quando quanto que
	quem se sem ser será seu seus só são sobre sua suas também te tem tenho ter toda todas todo todos tu um uma você vocês`,
	`aan al alle als altijd andere ben bij daar dan dat de deze die dit doe doen door dus een en er ge geen had heb hebben heeft
	het hier hij hoe hoeveel hun iemand iets ik in is ja je jij jouw kan kun kunnen maar me meer met mij mijn moet moeten na
	naar niet niets nog nu of om omdat onder ons ook op over te tegen toch toen tot u uit uw van veel voor waar waarom wanneer
	want waren was wat we wel welk welke werd wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou`,
	`a aby albo ale ani bez bo by być był była było były chcę ci co coś czego czemu czy czyli dla do dlaczego gdy gdyby gdzie go
	i ich ile im inne inny iż ja jak jaka jaki jakich jakie jako je jego jej jest jestem jeszcze jeśli jeżeli już każdy kiedy
	kto która które którego której który których którym lub ma mają mam mi mnie moja moje moich może można mój mu musi muszę
	na nad nam nas nasz nie niego niej nim nich niż o od on ona one oni oraz po pod poza przed przez przy sam są się skąd
	sobie ta tak taki takie tam te tego tej ten teraz też to tu twój ty tych tylko tym u w we więc wszystkie wszystko z za
	zawsze ze że`,
	`а без бы был была были было быть в вам вас ведь весь во вот все всё всех вы где да даже для до его ее её если есть еще ещё
	же за зачем здесь и из или им их к как какая какие какой какую каких каком когда кого который которая которое которые
	которых кто ли либо между меня мне может можно мой моя моё мои мою моих мы на над надо нам нами нас не него нее неё нельзя нет
	ни ним ними них но ну делать сделать вами нужен нужна нужно нужны о об однако он она они оно от откуда очень по под почему при про раз с сам сами свой
	своя свои себя сейчас сколько со так также такой там тебя тем то тогда того тоже той только том тут ты у уже хочу хотя
	чего чей чем через что чтобы чья эта эти это этого этой этом этот я`,
	`acaba altında ama ancak arada arasında az bana bazı belki ben benim beri bile bir biri birkaç biz bize bu buna bunda bundan
	bunu bunun böyle çok çünkü da daha de değil diye dolayı eğer en fakat gibi göre hangi hangisi hem henüz hep her herhangi
	hiç ile ilgili ise için içinde kaç kadar ki kim kime kimin mı mi mu mü nasıl ne neden nedir nelerdir nerede nereden nereye
	niçin niye o olan olarak oldu olur olmak on ona ondan onu onun orada önce sadece sanki sen siz sonra şey şimdi şöyle şu
	tarafından tüm üzere üzerinde var ve veya ya yani yalnızca yapmak yok yoksa zaman`,
	`أحد إذ إذا أكثر إلا التي الذي الذين ألا أم أما أن إن أنا أنت أنه إلى أو أي أية أيضا أين ب بأن بد بدون بعد بعض بل بما بها
	بين تحت تكون تلك ثم حتى حول حيث حين خلال دون ذلك سوف شيء ضد ضمن عبر على عليه عليها عن عند عندما غير ف فقط فوق في فيه
	فيها قبل قد ك كان كانت كل كلما كم كما كن كيف ل لا لأن لدى لذلك لكن لكي لم لماذا لن له لها لهذا لو ليس ليست ما ماذا متى
	مثل مع من منذ منه منها نحن نعم هذا هذه هل هم هنا هناك هو هؤلاء هي و وهو وهي يكون يمكن`,
	`अगर अपना अपनी अपने अब आप आपका आपकी आपके इन इस इसका इसकी इसके इसमें इसे उन उनका उनकी उनके उस उसका उसकी उसके उसे एक ऐसा ऐसी
	ऐसे और कई कब कर करके करना करने करें कहाँ कहां का कि कितना कितनी कितने किस किसी की के कैसे कैसा को कोई कौन कौनसा क्या
	क्यों गया गयी गये चाहिए चाहिये जब जा जाता जाती जाते जाना जिस जिससे जिसे जो तक तब तो था थी थे दो द्वारा नहीं ना ने पर फिर
	बाद बिना भी मुझे में मेरा मेरी मेरे मैं यदि यह यहाँ या ये रहा रही रहे लिए लेकिन वह वहाँ वाला वाली वाले वे सकता सकती सकते
	सब सभी साथ से हम हमारा हमारी हमारे ही हुआ हुई हुए है हैं हो होगा होता होती होते होना`,
	`같은 것 것은 것을 것이 경우 그 그것 그래서 그러나 그런 그런데 그리고 나 나는 내 내가 누가 누구 다른 다시 대한 더 되나요 되는
	되어 된 될 두 따라 때 때문에 또 또는 뜻 많은 매우 모든 몇 무슨 무엇 무엇을 무엇이 무엇인가요 뭐 뭐가 및 바로 수 싶다 싶어요
	싶은데 아니면 안 않는 않은 어느 어디 어디서 어디에 어떤 어떻게 언제 얼마나 없나요 없는 없어요 여러 왜 우리 위한 위해 위해서
	이 이것 이런 인가요 있나요 있는 있는데 있습니까 있을 있을까요 있어야 저 저는 제 좀 통해 하게 하고 하기 하나 하나요 하는 하려면
	하면 하지 한 할 할까요 합니까 합니다 해 해서 해야 했는데`,
}

// functionSets contains the indexed forms of functionWords.
var functionSets = sync.OnceValue(func() (sets []map[string]bool) {
	for _, list := range functionWords {
		set := map[string]bool{}
		eachWord(list, func(w word) bool {
			set[w.text] = true
			return true
		})
		sets = append(sets, set)
	}
	return sets
})

// isFunctionWord returns a function that reports whether a word is a function word in the
// language of a query, the language with most of its words. A word must be in the lists of all
// languages that are as likely. It is always false if a single word of Latin letters, or few among
// many, would decide, because they do not show a language ("war crimes" is not German); also for
// a query of function words alone, since it is about them.
func isFunctionWord(query string) func(word string) bool {
	sets := functionSets()
	counts := make([]int, len(sets))
	most, all := 0, 0
	eachWord(query, func(w word) bool {
		all++
		for i, set := range sets {
			if set[w.text] {
				counts[i]++
				most = max(most, counts[i])
			}
		}
		return true
	})
	return func(word string) bool {
		if most == 0 || most == all || strings.TrimFunc(word, func(r rune) bool { return r < 0x250 }) == "" && (most == 1 || 4*most < all) {
			return false
		}
		for i, n := range counts {
			if n == most && !sets[i][word] {
				return false
			}
		}
		return true
	}
}
