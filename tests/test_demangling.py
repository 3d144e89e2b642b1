"""Demangling: as libstdc++ writes names, and bounded whatever the name."""

from __future__ import annotations

import re
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.names import demangling
from hta_widgets.names.demangling import LONGEST, demangled, is_mangled
from tests.call_counts import count_calls

KERNELS = {
    "_Z3addPfi": "add(float*, int)",
    "_Z1fv": "f()",
    "_Z4gemmIfLi2ELb1EEvPKT_": "void gemm<float, 2, true>(float const*)",
    "_ZN5cudnn3fooILi512ELb0EEEvN2at6ScalarES2_": (
        "void cudnn::foo<512, false>(at::Scalar, at::Scalar)"
    ),
    "_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb": (
        "void at::native::vectorized_gather_kernel<16, long>"
        "(char*, char*, long*, int, long, long, long, long, bool)"
    ),
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10AbsFunctorIlEESt5arrayIPcLm2EEEEvi"
    "T0_T1_": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<long>, "
        "std::array<char*, 2ul> >(int, at::native::AbsFunctor<long>, std::array<char*, 2ul>)"
    ),
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_15CUDAFunctor_"
    "addIfEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_": (
        "void at::native::elementwise_kernel<128, 2, "
        "at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> >"
        "(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1}>"
        "(int, at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float> >"
        "(at::TensorIteratorBase&, at::native::CUDAFunctor_add<float> const&)::{lambda(int)#1})"
    ),
    "_ZN2at1gIZZZNS_10log_kernelERNS_4BaseEENKUlvE0_clEvENKUlfE_clEfEUlvE_EEvT_": (
        "void at::g<at::log_kernel(at::Base&)::{lambda()#2}::operator()() const::"
        "{lambda(float)#1}::operator()(float) const::{lambda()#1}>"
        "(at::log_kernel(at::Base&)::{lambda()#2}::operator()() const::"
        "{lambda(float)#1}::operator()(float) const::{lambda()#1})"
    ),
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZNS0_3powIffEEvRNS_4BaseET0_EUlfE0_EEviS4_": (
        "void at::native::vectorized_elementwise_kernel<4, "
        "at::native::pow<float, float>(at::Base&, float)::{lambda(float)#2}>(int, at::Base&)"
    ),
    "_ZN8internal6kernelIiLb0EEENSt9enable_ifIXntT0_EvE4typeET_": (
        "std::enable_if<!(false), void>::type internal::kernel<int, false>(int)"
    ),
    "_ZN3foo43_GLOBAL__N__50f1b6c4_10_Dropout_cu_0e96ed383barEv": (
        "foo::(anonymous namespace)::bar()"
    ),
    "_ZN5cudnn4nchwIfL21cudnnKernelDataType_t2EEEvv": (
        "void cudnn::nchw<float, (cudnnKernelDataType_t)2>()"
    ),
    "_Z1fIJifEEvDpPT_": "void f<int, float>(int*, float*)",
    "_Z1fIJEEviDpT_": "void f<>(int)",
    "_Z1fPFvifE": "f(void (*)(int, float))",
    "_Z1fRA5_KiPA3_A2_f": "f(int const (&) [5], float (*) [3][2])",
    "_Z1fM3FooKFivE": "f(int (Foo::*)() const)",
    "_Z1fDhDv4_f": "f(half, float __vector(4))",
    "_Z1fDF16_DF16b": "f(_Float16, std::bfloat16_t)",
    "_Z1fI6StructIS_IiEEEvT_": "void f<Struct<f<int> > >(Struct<f<int> >)",
    "_ZN3FooIiEC2ERKS0_": "Foo<int>::Foo(Foo<int> const&)",
    "_ZN3FooD1Ev": "Foo::~Foo()",
    "_ZNK3FooclEi": "Foo::operator()(int) const",
    "_ZlsRSoRKSs": "operator<<(std::ostream&, std::string const&)",
    "_Z6kernelPf.kd": "kernel(float*) [clone .kd]",
    "_Z3foov.constprop.0.cold": "foo() [clone .constprop.0] [clone .cold]",
    "_Z3add": "add",
    "_ZN1A1bE": "A::b",
    "_Z1gIXadL_Z3foovEEXadL_ZN1A3barEvEEEvv": "void g<&(foo()), &A::bar>()",
    "_Z1hIXaasrSt7is_sameIifE5valueltLi1ELi2EEEvv": (
        "void h<std::is_same<int, float>::value&&((1)<(2))>()"
    ),
    "_Z3runI5ThirdTnPFT_RKS1_EXadL_Z4siluIS0_ES1_S3_EEEvPS1_": (
        "void run<Third, &(silu<Third>(Third const&))>(Third*)"
    ),
    "_Z1kIZ1fIiEvOT_EUlfE_EviS1_": (
        "void k<f<int>(int&&)::{lambda(float)#1}>(int, f<int>(int&&)::{lambda(float)#1})"
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_names(name):
    assert demangled(name) == KERNELS[name]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_Z",
        "_Zx",
        "volta_sgemm_128x64_nn",
        "void add<int>(int*)",
        "_Z30add",
        "_Z3addPfi garbage",
        "_Z3addPfi?",
        "_Z3addS5_",
        "_Z3addIiEvT5_",
        "_ZN3addE\0",
        "_ZTV3Foo",
        "_Z1fIJEEvT_DpS_X",
        "_Z" + "9" * 500 + "a",
    ],
)
def test_what_cannot_be_read_stays_as_it_is(name):
    assert demangled(name) == name


def test_what_looks_mangled():
    assert is_mangled("_Z3addPfi.kd")
    assert not is_mangled("_Z3add(int)")
    assert not is_mangled("add")


def number(position):
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if position == 0:
        return "S_"
    position -= 1
    text = ""
    while True:
        text = digits[position % 36] + text
        position //= 36
        if not position:
            return f"S{text}_"


def doubling(times):
    """Name whose text doubles with each repetition: pair<X, X> of pair<X, X> ..."""
    name = f"_Z1f1A1PI{number(0) * 2}E"
    for step in range(times):
        name += f"{number(1)}I{number(step + 2) * 2}E"
    return name


def test_doubling_names_are_read_as_far_as_they_are_short():
    assert demangled(doubling(1)) == "f(A, P<A, A>, P<P<A, A>, P<A, A> >)"
    assert len(demangled(doubling(10))) > 10_000
    assert demangled(doubling(50)) == doubling(50)


HOSTILE = [
    doubling(600),
    "_Z1f" + "P" * 10_000 + "i",
    "_Z1f" + "K" * 16_000 + "i",
    "_Z1f" + "N" * 10_000,
    "_Z" + "Z" * 10_000 + "1fvE",
    "_Z1fI" + "J" * 10_000,
    "_Z1fIX" + "nt" * 5_000,
    "_Z1f" + "A1_" * 5_000 + "i",
    "_ZN" + "1aC1" * 4_000 + "E",
    "_ZN" + "1a" * 8_000 + "E",
    "_Z1fIJ" + "i" * 4_000 + "EEv" + "DpPT_" * 2_000,
    "_Z1fI" + "4long" * 1_000 + "Ev" + "T9_" * 2_900,
    "_Z1fi" + ".a.1" * 4_000 + "!",
    "_Z" + "1" * 2**20,
]


@pytest.mark.parametrize("which", range(len(HOSTILE)))
def test_hostile_names_cost_little(which):
    demangling._demangled.cache_clear()
    assert count_calls(demangled, HOSTILE[which]) < 32 * LONGEST
    assert len(demangled(HOSTILE[which])) < 2**22


@given(st.sampled_from(sorted(KERNELS)), st.data())
def test_damaged_names_raise_nothing(name, data):
    at = data.draw(st.integers(2, len(name)))
    more = data.draw(st.text("SNEIJTZKPRFAMXDLUlv_0123456789.", max_size=8))
    cut = data.draw(st.integers(0, 5))
    text = demangled(name[:at] + more + name[at + cut :])
    assert text
    assert not re.search(r"[\0-\x1f]", text)


def test_long_names_are_left():
    name = f"_Z{LONGEST}" + "a" * LONGEST + "v"
    assert demangled(name) == name


def skeleton(text):
    """What Nsight Systems and libstdc++ agree on: all but literals' types, parameters and const."""
    text = text.replace("(anonymous namespace)", "<unnamed>")
    text = re.sub(r"\((?:unsigned )?(?:int|long|bool)\)", "", text)
    text = re.sub(r"\b(\d+)ul?\b", r"\1", text)
    text = text.replace("false", "0").replace("true", "1").replace("operator ()", "operator()")
    while (less := re.sub(r"\((?!instance)[^()]*\)", "", text)) != text:
        text = less
    text = re.sub(r"\[lambda \(instance (\d+)\)\]", r"{lambda#\1}", text)
    return re.sub(r"\bconst\b|\bvoid\b|\s", "", text)


def test_names_of_a_real_export(real_traces):
    file = real_traces / "nsys" / "h100_2gpu_1s.sqlite"
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
    names = connection.execute(
        "select distinct mangled.value, demangled.value from CUPTI_ACTIVITY_KIND_KERNEL"
        " join StringIds mangled on mangled.id = mangledName"
        " join StringIds demangled on demangled.id = demangledName"
    ).fetchall()
    connection.close()
    assert len(names) == 41
    for mangled, by_nsys in names:
        assert skeleton(demangled(mangled)) == skeleton(by_nsys)
