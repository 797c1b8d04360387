"""Einsum: permutations, diagonals, sums, products and contractions of any number of inputs."""

from typing import Any

import numpy as np

from ..harness import Case, Rand, Tolerance

_TYPES = ("float32", "float16", "bfloat16", "float64", "int32", "int64", "uint32", "uint64")
# A result of 16 bits in between is rounded; the library chooses the order of sums.
_HALF = {"float16": Tolerance(1, terms=2.0**14), "bfloat16": Tolerance(1, terms=2.0**17)}

_UNKNOWN_TO_HOST = {"session": "ellipses of different ranks are refused by the host's shape inference"}


def _einsum(*inputs: np.ndarray, equation: str = "") -> Any:
    return np.einsum(equation.replace(" ", ""), *inputs)


def _case(equation: str, *shapes: tuple[int, ...], dtypes: tuple[str, ...] = ("float32",), **more: Any) -> Case:
    more.setdefault("name", equation + "_" + "_".join("x".join(map(str, shape)) or "scalar" for shape in shapes))
    if len(shapes) > 2:
        more.setdefault("tolerance", _HALF)
    return Case(op="Einsum", inputs=[Rand(shape) for shape in shapes], attrs={"equation": equation}, expected=_einsum,
                magnitude="absolute", dtypes=dtypes, **more)  # fmt: skip


def _refused(equation: str, *shapes: tuple[int, ...], text: str, code: str = "INVALID_ARGUMENT") -> Case:
    return Case(op="Einsum", inputs=[Rand(shape) for shape in shapes], attrs={"equation": equation},
                dtypes=("float32",), error=(code, text), name=f"refused_{equation}")  # fmt: skip


CASES = [
    Case(op="Einsum", inputs=[Rand((3, 4)), None], attrs={"equation": "ij,->ij"}, dtypes=("float32",),
         error=("INVALID_ARGUMENT", "input 1 is left out"), name="left_out"),
    # Every type through each kind of step.
    _case("bij,bjk->bik", (3, 5, 7), (3, 7, 4), dtypes=_TYPES, opset="12+"),
    _case("ii,ij->j", (6, 6), (6, 5), dtypes=_TYPES, opset="12+"),
    _case("ij,jk,kl->li", (4, 5), (5, 6), (6, 3), dtypes=_TYPES, opset="12+"),
    _case("i,j->ji", (5,), (7,), dtypes=_TYPES, opset="12+"),
    _case("ijk->ki", (3, 4, 5), dtypes=_TYPES, opset="12+"),
    # One input.
    _case("", ()),
    _case("i->i", (7,)),
    _case("ij->ji", (5, 7)),
    _case("ij", (5, 7)),
    _case("ba", (5, 7)),
    _case("Ab", (5, 7)),
    _case("aB", (5, 7)),
    _case("ii", (6, 6)),
    _case("ii->i", (6, 6)),
    _case("iji->j", (4, 5, 4)),
    _case("ijij->ji", (4, 5, 4, 5)),
    _case("iii->", (5, 5, 5)),
    _case("ij->", (33, 65)),
    _case("ij->i", (33, 65)),
    _case("ijk->j", (3, 70, 5)),
    _case("...ij->...ji", (2, 3, 4, 5)),
    _case("i...->...", (3, 4, 5)),
    _case("i...j->j...i", (3, 4, 2, 5)),
    _case("...->...", (3, 4)),
    _case("...i->i...", (5,)),
    _case(" i  j -> j i ", (5, 7)),
    # Two: products without a sum.
    _case("i,i->i", (70,), (70,)),
    _case("ij,ji->ij", (5, 7), (7, 5)),
    _case("ij,k->kij", (5, 7), (3,)),
    _case(",i->i", (), (7,)),
    _case(",", (), ()),
    _case("ii,jj->ij", (5, 5), (4, 4)),
    # Two: contractions, with every place for the batch, rows, columns and inner dimensions.
    _case("i,i->", (70,), (70,)),
    _case("ij,j->i", (33, 40), (40,)),
    _case("j,ij->i", (40,), (33, 40)),
    _case("ij,jk->ik", (33, 40), (40, 21), dtypes=("float32", "float16")),
    _case("ij,jk", (33, 40), (40, 21)),
    _case("ij,kj->ik", (33, 40), (21, 40)),
    _case("ji,jk->ki", (40, 33), (40, 21)),
    _case("ji,kj->ki", (40, 33), (21, 40)),
    _case("ij,ij->", (9, 11), (9, 11)),
    _case("ij,ji->", (9, 11), (11, 9)),
    _case("ij,ij->i", (9, 11), (9, 11)),
    _case("bij,bij->b", (5, 4, 6), (5, 4, 6)),
    _case("bij,bjk->kbi", (3, 5, 7), (3, 7, 4)),
    _case("ijb,jkb->ikb", (5, 7, 3), (7, 4, 3)),
    _case("bhwc,hkc->bhwk", (2, 5, 6, 8), (5, 6, 8)),
    _case("bhwc,wkc->bhwk", (2, 5, 6, 8), (6, 7, 8)),
    _case("bqhd,bkhd->bhqk", (2, 6, 3, 8), (2, 5, 3, 8), dtypes=("float32", "float16")),
    _case("bhqk,bkhd->bqhd", (2, 3, 6, 5), (2, 5, 3, 8)),
    _case("btgi,bgki->btgk", (2, 3, 4, 5), (2, 4, 6, 5)),
    _case("abcd,cdef->abef", (2, 3, 4, 5), (4, 5, 3, 2)),
    _case("abcd,dcef->abef", (2, 3, 4, 5), (5, 4, 3, 2)),
    _case("acbd,cedf->faeb", (2, 3, 4, 5), (3, 2, 5, 4)),
    _case("abcdef,gbhdif->agchei", (2, 3, 2, 3, 2, 3), (3, 3, 2, 3, 2, 3)),
    _case("abcde,abcdf->dafcbe", (2, 3, 2, 3, 4), (2, 3, 2, 3, 5)),
    _case("ij,ik->jk", (40, 7), (40, 9)),
    _case("iij,jk->ik", (5, 5, 4), (4, 3)),
    _case("ijk,jl->il", (5, 7, 3), (7, 4), name="a_label_of_one_input"),
    _case("...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 2), skip=_UNKNOWN_TO_HOST),
    _case("...ij,...jk", (2, 3, 4, 5), (2, 3, 5, 2)),
    _case("i...,j...->ij...", (3, 4, 5), (2, 5), skip=_UNKNOWN_TO_HOST),
    _case("...i,...i->...", (2, 1, 4, 5), (3, 1, 5), skip=_UNKNOWN_TO_HOST),
    # Dimensions of 1 broadcast.
    _case("ij,ij->ij", (5, 1), (1, 7)),
    _case("ij,jk->ik", (5, 7), (1, 3), name="an_inner_size_of_1"),
    _case("bij,bjk->bik", (1, 5, 7), (3, 7, 4)),
    # More inputs.
    _case("i,i,i->", (9,), (9,), (9,)),
    _case("ij,ik,jk->", (4, 5), (4, 6), (5, 6)),
    _case("bij,bjk,bkl,blm->bim", (2, 3, 4), (2, 4, 5), (2, 5, 3), (2, 3, 6), dtypes=("float32", "float16")),
    _case("ab,bc,cd,de,ef->fa", (3, 20), (20, 2), (2, 20), (20, 4), (4, 5)),
    _case("i,j,k->kji", (3,), (4,), (5,)),
    _case("ij,j,ij,->i", (4, 5), (5,), (4, 5), ()),
    _case("...a,a...,b->b...", (3, 4), (4, 3), (2,)),
    _case("ijk,ijk,ijk->k", (3, 4, 5), (3, 4, 5), (3, 4, 5)),
    # Empty.
    _case("ij,jk->ik", (0, 5), (5, 4)),
    _case("ij,jk->ik", (3, 0), (0, 4), dtypes=("float32", "int32")),
    _case("ij->i", (4, 0)),
    _case("ij->j", (4, 0)),
    # Refusals.
    # As many dimensions as kernels have, and one more.
    _case("aceg,bdfh->abcdefgh", (2,) * 4, (2,) * 4),
    _case("abcdefghi,abcdefghi->abcdefghi", (2,) * 9, (2,) * 9),
    _case("abcdefghi->ihgfedcba", (2,) * 9),
    _case("abcdefghijklmno->acegikmo", (2,) * 15),
    _refused("acegi,bdfh->abcdefghi", (2,) * 5, (2,) * 4, text="a product of 9 dimensions", code="NOT_SUPPORTED"),
    _refused("abcdefghijklmnopq->acegikmoq", (2,) * 17, text="more than 8 dimensions", code="NOT_SUPPORTED"),
    _refused("ij,jk->ik", (3, 4), text="has 2 terms for 1 inputs"),
    _refused("i1->i", (3, 4), text="'1' is no letter"),
    _refused("i.j->ij", (3, 4), text="'.' is no letter"),
    _refused("...i...->i", (3, 4), text="two ellipses"),
    _refused("ij->ijj", (3, 4), text="a label twice"),
    _refused("ij->ik", (3, 4), text="label 'k', no input has it"),
    _refused("ij->...ij", (3, 4), text="an ellipsis, no input has one"),
    _refused("...i->i", (3, 4), text="the output has no ellipsis"),
    _refused("ij->i", (3, 4, 5), text="input 0 of shape [3,4,5] has 3 dimensions, its term has 2"),
    _refused("ijk...->i", (3, 4), text="its term has 3"),
    _refused("ij,jk->ik", (3, 4), (5, 6), text="dimension 0 of input 1 of shape [5,6] is 5, its label has size 4"),
    _refused("ii->i", (3, 1), text="dimension 1 of input 0 of shape [3,1] is 1, its label has size 3"),
    Case(op="Einsum", inputs=[Rand((3, 4))], dtypes=("float32",), error=("INVALID_ARGUMENT", "equation is missing"),
         skip={"session": "no valid model"}),
]  # fmt: skip
